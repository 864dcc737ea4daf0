// Which adapters of a node belong to which plane, which is near to which GPU, and the variables of that.
// rows: A10.3 C5.2 C5.3 C5.4
#include "slurm/fabric.h"
#include "slurm/nics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_json *yaml(const char *text)
{
	struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(text, strlen(text), &l, &err) || l.n != 1)
		fail_msg("%s", err.msg);
	struct td_json *j = td_json_ref(l.v[0]);
	td_json_list_done(&l);
	return j;
}

#define NODE(nics) "metadata: {name: n0, annotations: {tandem.dev/nics: '{\"nics\":[" nics "]}'}}"
#define NIC(name, interface, link, active, near)                                                                       \
	"{\"name\":\"" name "\",\"interface\":\"" interface "\",\"link\":\"" link                                      \
	"\",\"rate\":400000,\"active\":" active ",\"near\":" near "}"
#define RAILS                                                                                                          \
	NIC("mlx5_0", "ib0", "InfiniBand", "true", "[4,1,0,0]")                                                        \
	"," NIC("mlx5_1", "ib1", "InfiniBand", "true", "[1,4,0,0]") "," NIC(                                           \
		"mlx5_2", "ib2", "InfiniBand", "true",                                                                 \
		"[0,0,1,1]") "," NIC("mlx5_3", "ib3", "InfiniBand", "true",                                            \
				     "[0,0,1,1]") "," NIC("eno1", "eno1", "Ethernet", "true", "[1,1,0,0]")
#define PLANES "planes: {gpu: {interfaces: ['ib*']}, user: {interfaces: ['en*']}}"

static void lines(const char *fabric, const char *node, const char *want)
{
	td_auto_free char *text = td_asprintf("spec: {fabric: {%s}}", fabric);
	td_auto(td_json_unref) struct td_json *sc = yaml(text), *n = yaml(node);
	td_auto_buf struct td_buf b = {0};
	td_slurm_fabric_lines("n0", td_json_root(sc), td_json_root(n), &b);
	assert_string_equal(td_buf_str(&b), want);
}

static void test_planes(void **state)
{
	(void)state;
	lines(PLANES, NODE(RAILS),
	      "n0 NCCL_SOCKET_IFNAME =ib0,ib1,ib2,ib3\n"
	      "n0 NCCL_IB_HCA @= mlx5_0,mlx5_1,mlx5_2,mlx5_3 mlx5_0,mlx5_1,mlx5_2,mlx5_3\n"
	      "n0 GLOO_SOCKET_IFNAME ib0,ib1,ib2,ib3\n"
	      "n0 UCX_NET_DEVICES @ mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1\n"
	      "n0 OMPI_MCA_btl_tcp_if_include ib0,ib1,ib2,ib3\n");
	// The spec's own wins; what is down is left out; where nothing is near, nobody's list is shorter.
	lines("variables: [{name: NCCL_SOCKET_IFNAME, value: eth9}, {name: NCCL_IB_HCA, value: x}, {name: "
	      "UCX_NET_DEVICES, value: y}, {name: OMPI_MCA_btl_tcp_if_include, value: z}], planes: {gpu: {interfaces: "
	      "['mlx5_[01]']}}",
	      NODE(NIC("mlx5_0", "ib0", "InfiniBand", "false", "[]") "," NIC("mlx5_1", "ib1", "InfiniBand", "true",
									     "[]")),
	      "n0 NCCL_SOCKET_IFNAME eth9\nn0 NCCL_IB_HCA x\nn0 UCX_NET_DEVICES y\nn0 OMPI_MCA_btl_tcp_if_include z\n"
	      "n0 GLOO_SOCKET_IFNAME ib1\n");
	// Without RDMA UCX goes over the interfaces, and NCCL knows no adapter.
	lines("planes: {gpu: {interfaces: [eth1]}}",
	      NODE(NIC("eth0", "eth0", "Ethernet", "true", "[1]") "," NIC("eth1", "eth1", "Ethernet", "true", "[0]")),
	      "n0 NCCL_SOCKET_IFNAME =eth1\nn0 GLOO_SOCKET_IFNAME eth1\nn0 UCX_NET_DEVICES @ eth1 eth1\n"
	      "n0 OMPI_MCA_btl_tcp_if_include eth1\n");
	// A plane that the node has nothing of is no other plane.
	lines("planes: {gpu: {interfaces: [ib9]}}", NODE(RAILS), "");
	lines(PLANES, "metadata: {name: n0, annotations: {tandem.dev/nics: '{'}}", "");
}

static void test_by_hand(void **state)
{
	(void)state;
#define HCA "variables: [{name: HCA, annotation: x/h, found: adapters, perDevice: true, value: 'a{}:1'}]"
	lines(HCA, NODE(RAILS), "n0 HCA @a mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1\n");
	lines(HCA, "metadata: {name: n0, annotations: {x/h: 'm1,m2', tandem.dev/nics: '{\"nics\":[" RAILS "]}'}}",
	      "n0 HCA @a m1:1,m2:1\n");
}

static void test_near(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *f = yaml(PLANES), *n = yaml(NODE(RAILS));
	td_auto_variables struct td_slurm_variables l = {0};
	td_slurm_fabric_read(td_json_root(f), td_json_root(n), &l);
	static const char *const want[][2] = {{"1", "=mlx5_1"}, {"2-3", "=mlx5_2,mlx5_3"}, {"9", NULL}};
	for (size_t i = 0; i < TD_LEN(want); i++) {
		struct td_ranges r;
		assert_int_equal(td_ranges_parse(want[i][0], &r, NULL), 0);
		td_auto_free char *got = td_slurm_variable_value(&l.v[1], &r, &(struct td_ranges){0});
		if (!td_streq(got, want[i][1]))
			fail_msg("%s: %s", want[i][0], got ? got : "none");
	}
	td_auto_free char *all = td_slurm_variable_value(&l.v[1], &(struct td_ranges){0}, &(struct td_ranges){0});
	assert_string_equal(all, "=mlx5_0,mlx5_1,mlx5_2,mlx5_3");
}

// Adapters that Slurm gives out: whoever has some knows theirs alone, and nobody else knows one.
#define OWN(name, files)                                                                                               \
	"{\"name\":\"" name "\",\"interface\":\"i" name "\",\"link\":\"InfiniBand\",\"active\":true,\"numa\":1" files  \
	"}"
#define FILES(n) ",\"files\":[\"/dev/infiniband/uverbs" n "\",\"/dev/infiniband/umad" n "\"]"
static void test_given(void **state)
{
	(void)state;
#define GIVEN                                                                                                          \
	NODE(OWN("m0", FILES("4")) "," OWN("s0", FILES("5")) "," OWN("m1", FILES("6")) "," OWN(                        \
		"m2", ",\"files\":[\"/dev/sda\"]") "," OWN("m3", ",\"near\":[1]"))
#define GRANT "nics: {grant: true}, planes: {gpu: {interfaces: ['m*']}}"
	lines(GRANT, GIVEN,
	      "n0 NCCL_SOCKET_IFNAME =im0,im1,im2,im3\nn0 NCCL_IB_HCA %= 4/m0,6/m1\nn0 GLOO_SOCKET_IFNAME "
	      "im0,im1,im2,im3\n"
	      "n0 UCX_NET_DEVICES % 4/m0:1,6/m1:1 im0,im1,im2,im3\nn0 OMPI_MCA_btl_tcp_if_include im0,im1,im2,im3\n");
	// Without planes those of no plane are given out, and nobody says over which interfaces jobs talk.
	lines("nics: {grant: true}", NODE(OWN("m0", FILES("4"))),
	      "n0 NCCL_IB_HCA %= 4/m0\nn0 UCX_NET_DEVICES % 4/m0:1 im0\n");
	lines("nics: {grant: true}", NODE(OWN("m0", ",\"near\":[1]")), "");
	lines("nics: {grant: false}", NODE(OWN("m0", FILES("4"))), "");
	td_auto(td_json_unref) struct td_json *f = yaml("{" GRANT "}"), *n = yaml(GIVEN);
	td_auto_nics struct td_slurm_nics l = {0};
	td_slurm_nics_read(td_json_root(f), td_json_root(n), &l);
	assert_string_equal(td_slurm_nics_given(&l, 1)->name, "m1");
	assert_null(td_slurm_nics_given(&l, 2));
	td_auto_variables struct td_slurm_variables v = {0};
	td_slurm_fabric_read(td_json_root(f), td_json_root(n), &v);
	static const char *const want[][3] = {
		{"0-3", "1", "=m1"}, {"0", "0-1", "=m0,m1"}, {"0-3", "", NULL}, {"", "7", NULL}};
	for (size_t i = 0; i < TD_LEN(want); i++) {
		struct td_ranges gpus, nics;
		assert_int_equal(td_ranges_parse(want[i][0], &gpus, NULL), 0);
		assert_int_equal(td_ranges_parse(want[i][1], &nics, NULL), 0);
		td_auto_free char *got = td_slurm_variable_value(&v.v[1], &gpus, &nics);
		if (!td_streq(got, want[i][2]))
			fail_msg("%s of %s: %s", want[i][1], want[i][0], got ? got : "none");
	}
}

static void problem(const char *planes, const char *node, const char *want)
{
	td_auto(td_json_unref) struct td_json *f = yaml(planes), *n = yaml(node);
	td_auto_strv struct td_strv l = {0};
	td_slurm_nics_problems(td_json_root(f), td_json_root(n), &l);
	if (want ? l.n != 1 || strcmp(l.v[0], want) != 0 : l.n != 0)
		fail_msg("%s: %zu %s", planes, l.n, l.n ? l.v[0] : "");
}

static void test_problems(void **state)
{
	(void)state;
	problem("planes: {gpu: {interfaces: ['ib*'], minGbps: 400, count: 4}}", NODE(RAILS), NULL);
	problem("planes: {gpu: {interfaces: [ib0], minGbps: 800}}", NODE(RAILS),
		"n0: ib0 (mlx5_0) of the plane gpu runs at 400 Gb/s, 800 are asked for");
	problem("planes: {storage: {interfaces: [eno1], count: 2}}", NODE(RAILS),
		"n0: 1 interfaces are of the plane storage, 2 are asked for");
	problem("planes: {user: {interfaces: [eth0]}}", NODE(RAILS),
		"n0: 0 interfaces are of the plane user, 1 are asked for");
	problem("planes: {gpu: {interfaces: [ib0]}}", NODE(NIC("mlx5_0", "ib0", "InfiniBand", "false", "[]")),
		"n0: ib0 (mlx5_0) of the plane gpu is down");
	problem("planes: {gpu: {interfaces: [ib0]}}", "metadata: {name: n0}", NULL);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_planes), cmocka_unit_test(test_by_hand),
				       cmocka_unit_test(test_near), cmocka_unit_test(test_given),
				       cmocka_unit_test(test_problems)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
