/*
 * The C side of sluice-dpdk: DPDK's inline functions and structures behind a few dozen plain functions.
 *
 * Called only from src/ffi.rs. Nothing here keeps state; everything that can fail returns 0 or a negative errno.
 * The layout of what both languages see is asserted below, so that a DPDK with another layout does not compile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* ---- layout shared with Rust: src/ffi.rs, struct MbufHeader ---- */

#define MBUF_FIELD(field, offset, size)                                                     \
	_Static_assert(offsetof(struct rte_mbuf, field) == (offset), "offset of rte_mbuf." #field); \
	_Static_assert(sizeof(((struct rte_mbuf *)0)->field) == (size), "size of rte_mbuf." #field)

MBUF_FIELD(buf_addr, 0, 8);
MBUF_FIELD(buf_iova, 8, 8);
MBUF_FIELD(data_off, 16, 2);
MBUF_FIELD(refcnt, 18, 2);
MBUF_FIELD(nb_segs, 20, 2);
MBUF_FIELD(port, 22, 2);
MBUF_FIELD(ol_flags, 24, 8);
MBUF_FIELD(packet_type, 32, 4);
MBUF_FIELD(pkt_len, 36, 4);
MBUF_FIELD(data_len, 40, 2);
MBUF_FIELD(vlan_tci, 42, 2);
MBUF_FIELD(hash.rss, 44, 4);
MBUF_FIELD(hash, 44, 8);
MBUF_FIELD(vlan_tci_outer, 52, 2);
MBUF_FIELD(buf_len, 54, 2);
MBUF_FIELD(pool, 56, 8);
MBUF_FIELD(next, 64, 8);
MBUF_FIELD(tx_offload, 72, 8);
_Static_assert(sizeof(struct rte_mbuf) == 128, "size of rte_mbuf");
_Static_assert(RTE_MBUF_F_RX_RSS_HASH == 2, "flag of a valid RSS hash");
_Static_assert((RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL) == 3ULL << 61, "flags of an mbuf without a buffer of its own");
_Static_assert(RTE_PKTMBUF_HEADROOM == 128, "headroom of a fresh mbuf");
_Static_assert(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE == 0x10000, "bit of MBUF_FAST_FREE");
_Static_assert(RTE_ETH_TX_OFFLOAD_MULTI_SEGS == 0x8000, "bit of MULTI_SEGS");
_Static_assert(RTE_MAX_LCORE < UINT32_MAX, "lcore ids fit");

/* ---- structures shared with Rust: same names in src/ffi.rs ---- */

struct sluice_port_info {
	char driver[64];
	char device[64];
	uint64_t receive_offloads;
	uint64_t transmit_offloads;
	uint64_t rss_functions;
	int32_t numa_node;
	uint32_t max_receive_frame;
	uint16_t max_receive_queues;
	uint16_t max_transmit_queues;
	uint16_t min_mtu;
	uint16_t max_mtu;
	uint16_t mtu;
	uint8_t mac[6];
};
_Static_assert(sizeof(struct sluice_port_info) == 176, "size of sluice_port_info");

struct sluice_port_config {
	uint64_t transmit_offloads;
	uint64_t rss_functions;
	uint16_t receive_queues;
	uint16_t transmit_queues;
	uint16_t receive_descriptors;
	uint16_t transmit_descriptors;
	uint16_t mtu;
	uint8_t promiscuous;
	uint8_t reserved;
};
_Static_assert(sizeof(struct sluice_port_config) == 32, "size of sluice_port_config");

struct sluice_statistics {
	uint64_t received_packets;
	uint64_t transmitted_packets;
	uint64_t received_bytes;
	uint64_t transmitted_bytes;
	uint64_t missed;
	uint64_t receive_errors;
	uint64_t transmit_errors;
	uint64_t no_mbuf;
};
_Static_assert(sizeof(struct sluice_statistics) == 64, "size of sluice_statistics");

struct sluice_link {
	uint32_t megabits_per_second;
	uint8_t up;
	uint8_t full_duplex;
	uint8_t reserved[2];
};
_Static_assert(sizeof(struct sluice_link) == 8, "size of sluice_link");

/* ---- environment abstraction layer ---- */

typedef void (*sluice_log_line)(uint32_t level, const char *text, size_t length);

static ssize_t
log_write(void *cookie, const char *text, size_t length)
{
	((sluice_log_line)cookie)((uint32_t)rte_log_cur_msg_loglevel(), text, length);
	return (ssize_t)length;
}

int
sluice_log_open(sluice_log_line line, uint32_t level)
{
	cookie_io_functions_t functions = { .write = log_write };
	FILE *stream = fopencookie((void *)line, "w", functions);

	if (stream == NULL)
		return -errno;
	setvbuf(stream, NULL, _IOLBF, 512);
	rte_log_set_global_level(level);
	return rte_openlog_stream(stream);
}

int
sluice_eal_init(int argc, char **argv)
{
	return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

int
sluice_eal_cleanup(void)
{
	return rte_eal_cleanup();
}

const char *
sluice_version(void)
{
	return rte_version();
}

uint64_t
sluice_cycles_per_second(void)
{
	return rte_get_tsc_hz();
}

/* Whether the kernel would give `bytes` of huge pages of this size: reserves them, touches none, gives them back. */
int
sluice_huge_pages_available(size_t bytes, uint32_t page_size_log2)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (int)(page_size_log2 << MAP_HUGE_SHIFT);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	munmap(memory, bytes);
	return 0;
}

struct sluice_memory_file {
	void *base;
	size_t length;
	int file;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sluice_memory_file) == 24, "size of sluice_memory_file");

struct file_list {
	struct sluice_memory_file *files;
	uint32_t count;
	uint32_t capacity;
};

/* Files hold memory in the order of its addresses, so that one address and offset tell where all of a file is. */
static int
add_file(const struct rte_memseg_list *list, const struct rte_memseg *segment, void *context)
{
	struct file_list *found = context;
	int file = rte_memseg_get_fd_thread_unsafe(segment);
	size_t offset;

	(void)list;
	for (uint32_t index = 0; index < found->count; index++)
		if (found->files[index].file == file)
			return 0;
	if (file < 0 || found->count == found->capacity || rte_memseg_get_fd_offset_thread_unsafe(segment, &offset) != 0)
		return -1;
	struct stat status;
	if (fstat(file, &status) != 0)
		return -1;
	found->files[found->count++] = (struct sluice_memory_file) {
		.base = (char *)segment->addr - offset, .length = (size_t)status.st_size, .file = file,
	};
	return 0;
}

/* The files that EAL's memory is in, each once; returns how many, or -1. */
int
sluice_memory_files(struct sluice_memory_file *files, uint32_t capacity)
{
	struct file_list found = { .files = files, .count = 0, .capacity = capacity };

	return rte_memseg_walk(add_file, &found) < 0 ? -1 : (int)found.count;
}

/* Another descriptor of the same file. */
int
sluice_file_duplicate(int file)
{
	int duplicate = fcntl(file, F_DUPFD_CLOEXEC, 0);

	return duplicate < 0 ? -errno : duplicate;
}

int
sluice_thread_register(void)
{
	return rte_thread_register() < 0 ? -rte_errno : 0;
}

void
sluice_thread_unregister(void)
{
	rte_thread_unregister();
}

uint32_t
sluice_lcore_id(void)
{
	return rte_lcore_id();
}

/* ---- packet memory ---- */

struct rte_mempool *
sluice_mempool_create(const char *name, uint32_t count, uint32_t cache, uint16_t data_room, int numa_node, int *error)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, count, cache, 0, data_room, numa_node);

	*error = pool == NULL ? rte_errno : 0;
	return pool;
}

/* Frees a pool of which every mbuf has come back; returns 0 and keeps it otherwise. */
int
sluice_mempool_free_if_full(struct rte_mempool *pool)
{
	if (!rte_mempool_full(pool))
		return 0;
	rte_mempool_free(pool);
	return 1;
}

static void
mark_as_outside(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	(void)pool;
	(void)opaque;
	(void)index;
	((struct rte_mbuf *)object)->port = 0;
}

static void
put_back_if_outside(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *mbuf = object;

	(void)opaque;
	(void)index;
	if (mbuf->port == 0) {
		/* As an mbuf in a pool must be. */
		rte_mbuf_refcnt_set(mbuf, 1);
		mbuf->next = NULL;
		mbuf->nb_segs = 1;
		rte_mempool_ops_enqueue_bulk(pool, &object, 1);
	}
}

/* Puts every mbuf into the pool that is not there. The caller knows that nobody has one or will have. */
void
sluice_mempool_put_back(struct rte_mempool *pool)
{
	unsigned int lcore, inside, i;
	void **objects;

	for (lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
		struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, lcore);

		if (cache != NULL)
			rte_mempool_cache_flush(cache, pool);
	}
	inside = rte_mempool_avail_count(pool);
	objects = inside == 0 ? NULL : malloc(inside * sizeof(*objects));
	if (inside != 0 && (objects == NULL || rte_mempool_ops_dequeue_bulk(pool, objects, inside) != 0)) {
		free(objects);
		return;
	}
	/* Whoever allocates an mbuf sets its port anew. */
	rte_mempool_obj_iter(pool, mark_as_outside, NULL);
	for (i = 0; i < inside; i++)
		((struct rte_mbuf *)objects[i])->port = RTE_MBUF_PORT_INVALID;
	rte_mempool_obj_iter(pool, put_back_if_outside, NULL);
	if (inside != 0)
		rte_mempool_ops_enqueue_bulk(pool, objects, inside);
	free(objects);
}

uint32_t
sluice_mempool_available(const struct rte_mempool *pool)
{
	return rte_mempool_avail_count(pool);
}

uint32_t
sluice_mempool_in_use(const struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

/* Takes mbufs as they lie in the pool: whoever takes them sets what a received packet needs. All or none. */
int
sluice_mbuf_take(struct rte_mempool *pool, void **mbufs, uint32_t count)
{
	return rte_mempool_get_bulk(pool, mbufs, count);
}

/* Gives back mbufs that are as a pool wants them: of this pool, one reference, one segment, none behind it. */
void
sluice_mbuf_put(struct rte_mempool *pool, void *const *mbufs, uint32_t count)
{
	rte_mempool_put_bulk(pool, mbufs, count);
}

void
sluice_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void
sluice_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

int
sluice_mbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

/* Shortens a packet of several segments to `length` bytes and frees the segments behind. */
void
sluice_mbuf_truncate_chain(struct rte_mbuf *head, uint32_t length)
{
	struct rte_mbuf *segment = head, *rest;
	uint32_t left = length;
	uint16_t segments = 1;

	while (segment->next != NULL && left > segment->data_len) {
		left -= segment->data_len;
		segment = segment->next;
		segments++;
	}
	rest = segment->next;
	segment->next = NULL;
	segment->data_len = (uint16_t)left;
	head->pkt_len = length;
	head->nb_segs = segments;
	while (rest != NULL) {
		struct rte_mbuf *next = rest->next;

		rte_pktmbuf_free_seg(rest);
		rest = next;
	}
}

/* Copies the first `length` bytes of a packet, over all its segments. The caller has checked that there are so many. */
void
sluice_mbuf_read(const struct rte_mbuf *mbuf, uint8_t *to, uint32_t length)
{
	const void *from = rte_pktmbuf_read(mbuf, 0, length, to);

	if (from != NULL && from != to)
		memcpy(to, from, length);
}

/* Appends an mbuf to a packet. */
int
sluice_mbuf_chain(struct rte_mbuf *head, struct rte_mbuf *tail)
{
	return rte_pktmbuf_chain(head, tail);
}

/* ---- ports ---- */

int
sluice_device_add(const char *bus, const char *name, const char *arguments)
{
	return rte_eal_hotplug_add(bus, name, arguments);
}

int
sluice_device_remove(const char *bus, const char *name)
{
	return rte_eal_hotplug_remove(bus, name);
}

int
sluice_port_by_name(const char *name, uint16_t *port)
{
	return rte_eth_dev_get_port_by_name(name, port);
}

int
sluice_port_information(uint16_t port, struct sluice_port_info *info)
{
	struct rte_eth_dev_info device;
	struct rte_ether_addr mac;
	int result = rte_eth_dev_info_get(port, &device);

	if (result != 0)
		return result;
	memset(info, 0, sizeof(*info));
	snprintf(info->driver, sizeof(info->driver), "%s", device.driver_name != NULL ? device.driver_name : "");
	snprintf(info->device, sizeof(info->device), "%s", rte_dev_name(device.device));
	info->receive_offloads = device.rx_offload_capa;
	info->transmit_offloads = device.tx_offload_capa;
	info->rss_functions = device.flow_type_rss_offloads;
	info->numa_node = rte_eth_dev_socket_id(port);
	info->max_receive_frame = device.max_rx_pktlen;
	info->max_receive_queues = device.max_rx_queues;
	info->max_transmit_queues = device.max_tx_queues;
	info->min_mtu = device.min_mtu;
	info->max_mtu = device.max_mtu;
	result = rte_eth_dev_get_mtu(port, &info->mtu);
	if (result == 0)
		result = rte_eth_macaddr_get(port, &mac);
	if (result == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	return result;
}

static int
queues_setup(uint16_t port, const struct sluice_port_config *config, struct rte_mempool *pool)
{
	uint16_t receive = config->receive_descriptors, transmit = config->transmit_descriptors;
	int node = rte_eth_dev_socket_id(port);
	int result = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive, &transmit);

	for (uint16_t queue = 0; result == 0 && queue < config->receive_queues; queue++)
		result = rte_eth_rx_queue_setup(port, queue, receive, (unsigned int)node, NULL, pool);
	for (uint16_t queue = 0; result == 0 && queue < config->transmit_queues; queue++)
		result = rte_eth_tx_queue_setup(port, queue, transmit, (unsigned int)node, NULL);
	return result;
}

int
sluice_port_configure(uint16_t port, const struct sluice_port_config *config, struct rte_mempool *pool)
{
	struct rte_eth_conf conf;
	int result;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = config->mtu;
	conf.txmode.offloads = config->transmit_offloads;
	if (config->receive_queues > 1 && config->rss_functions != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = config->rss_functions;
	}
	result = rte_eth_dev_configure(port, config->receive_queues, config->transmit_queues, &conf);
	return result != 0 ? result : queues_setup(port, config, pool);
}

int
sluice_port_start(uint16_t port)
{
	return rte_eth_dev_start(port);
}

int
sluice_port_stop(uint16_t port)
{
	return rte_eth_dev_stop(port);
}

int
sluice_port_close(uint16_t port)
{
	return rte_eth_dev_close(port);
}

int
sluice_port_promiscuous(uint16_t port, int enable)
{
	return enable ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
}

int
sluice_port_link(uint16_t port, struct sluice_link *link)
{
	struct rte_eth_link current;
	int result = rte_eth_link_get_nowait(port, &current);

	memset(link, 0, sizeof(*link));
	if (result == 0) {
		link->megabits_per_second = current.link_speed;
		link->up = current.link_status == RTE_ETH_LINK_UP;
		link->full_duplex = current.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	}
	return result;
}

/* Whether the kernel's interface of this index can carry frames: 1 or 0, or a negative errno; -ENODEV if there is none. */
int
sluice_interface_running(uint32_t index)
{
	struct ifreq request = { .ifr_ifindex = (int)index };
	int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	if (file < 0)
		return -errno;
	/* By its index, since it may have another name by now, and another one its name. */
	result = ioctl(file, SIOCGIFNAME, &request);
	if (result == 0)
		result = ioctl(file, SIOCGIFFLAGS, &request);
	result = result != 0 ? -errno : (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
	close(file);
	return result;
}

int
sluice_port_statistics(uint16_t port, struct sluice_statistics *statistics)
{
	struct rte_eth_stats stats;
	int result = rte_eth_stats_get(port, &stats);

	if (result != 0)
		return result;
	statistics->received_packets = stats.ipackets;
	statistics->transmitted_packets = stats.opackets;
	statistics->received_bytes = stats.ibytes;
	statistics->transmitted_bytes = stats.obytes;
	statistics->missed = stats.imissed;
	statistics->receive_errors = stats.ierrors;
	statistics->transmit_errors = stats.oerrors;
	statistics->no_mbuf = stats.rx_nombuf;
	return 0;
}

/* How many extended statistics the port has. */
int
sluice_port_extended_count(uint16_t port)
{
	return rte_eth_xstats_get(port, NULL, 0);
}

/* Value and name (64 bytes, zero-terminated) of each; returns how many the port has, which may have become more than `count`. */
int
sluice_port_extended(uint16_t port, struct rte_eth_xstat *values, struct rte_eth_xstat_name *names, uint32_t count)
{
	int result = rte_eth_xstats_get_names(port, names, count);

	return result < 0 || (uint32_t)result > count ? result : rte_eth_xstats_get(port, values, count);
}
_Static_assert(sizeof(struct rte_eth_xstat) == 16 && offsetof(struct rte_eth_xstat, value) == 8, "rte_eth_xstat");
_Static_assert(sizeof(struct rte_eth_xstat_name) == 64, "rte_eth_xstat_name");

uint16_t
sluice_receive(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t
sluice_transmit(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}
