// Places of nodes from what ibnetdiscover prints: fabrics of two and three levels, rails, and what is no fabric.
// rows: A9.3
#include "slurm/ibnet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// As ibnetdiscover prints a switch and a host, each with the other end of every cable.
#define LEAF1                                                                                                          \
	"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xb83fd20300a00001\n"                                                  \
	"switchguid=0xb83fd20300a00001(b83fd20300a00001)\n"                                                            \
	"Switch\t65 \"S-b83fd20300a00001\"\t\t# \"MF0;leaf.1:MQM9700/U1\" enhanced port 0 lid 6 lmc 0\n"               \
	"[1]\t\"H-506b4b0300000000\"[1](506b4b0300000000) \t\t# \"n0 mlx5_0\" lid 11 4xNDR\n"                          \
	"[2]\t\"H-506b4b0300000001\"[1](506b4b0300000001) \t\t# \"a host mlx5_0\" lid 12 4xNDR\n"                      \
	"[33]\t\"S-b83fd20300b00001\"[1]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 20 4xNDR\n"                               \
	"[65]\t\"H-b83fd20300a00009\"[1](b83fd20300a00009) \t\t# \"Mellanox Technologies Aggregation Node\" lid 7 "    \
	"4xNDR\n\n"
#define LEAF2                                                                                                          \
	"Switch\t65 \"S-b83fd20300a00002\"\t\t# \"MF0;leaf.2:MQM9700/U1\" enhanced port 0 lid 8 lmc 0\n"               \
	"[1]\t\"H-506b4b0300000002\"[1](506b4b0300000002) \t\t# \"n2 mlx5_0\" lid 13 4xNDR\n"                          \
	"[33]\t\"S-b83fd20300b00001\"[2]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 20 4xNDR\n\n"
#define HOSTS                                                                                                          \
	"caguid=0x506b4b0300000003\n"                                                                                  \
	"Ca\t1 \"H-506b4b0300000003\"\t\t# \"n3 mlx5_0\"\n"                                                            \
	"[1](506b4b0300000003) \t\"S-b83fd20300a00002\"[3]\t\t# lid 14 lmc 0 \"MF0;leaf.2:MQM9700/U1\" lid 8 4xNDR\n"

struct fabric {
	char *text;
	const char *ids[8]; // of n0 to n7, separated by commas; NULL: none
	size_t n;
};

static void check(const struct fabric *f, const char *want, size_t want_found)
{
	struct td_slurm_place places[8] = {0};
	struct td_strv ids[8] = {0};
	static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
	struct td_slurm_ibnet *net = NULL;
	struct td_error err = TD_ERROR_INIT;
	size_t found;
	if (td_slurm_ibnet_read(f->text, &net, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < f->n; i++) {
		places[i].node = names[i];
		if (f->ids[i])
			td_strv_split(&ids[i], f->ids[i], ',');
	}
	size_t levels = td_slurm_ibnet_places(net, places, ids, f->n, &found);
	td_auto_free char *conf = td_slurm_topology_conf(places, f->n, levels);
	assert_string_equal(strchr(conf, '\n') + 1, want);
	assert_int_equal(found, want_found);
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < TD_SLURM_LEVELS; k++)
			free((char *)(uintptr_t)places[i].at[k]);
		td_strv_done(&ids[i]);
	}
	td_slurm_ibnet_free(net);
}

static void test_as_printed(void **state)
{
	(void)state;
	// n1 says who it is by its GUID only, the others by their descriptions; n4 has no cable.
	const struct fabric f = {LEAF1 LEAF2 HOSTS, {NULL, "506b:4b03:0000:0001"}, 5};
	check(&f,
	      "SwitchName=elsewhere Nodes=n4\nSwitchName=leaf-1 Nodes=n[0-1]\nSwitchName=leaf-2 Nodes=n[2-3]\n"
	      "SwitchName=top Switches=elsewhere,leaf-1,leaf-2\n",
	      4);
	// Its adapter is another node's now, whatever it calls itself.
	const struct fabric g = {LEAF1, {"506b:4b03:0000:0009", "506b:4b03:0000:0000"}, 2};
	check(&g,
	      "SwitchName=elsewhere Nodes=n0\nSwitchName=leaf-1 Nodes=n1\nSwitchName=top Switches=elsewhere,leaf-1\n",
	      1);
}

static void a_switch(struct td_buf *b, int guid, const char *name)
{
	td_buf_printf(b, "Switch 40 \"S-%04x\" # \"%s\" lid 1\n", guid, name);
}

// Four leaves with two nodes each, two pods of two leaves below two switches, which a core joins.
static void test_three_levels(void **state)
{
	(void)state;
	td_auto_buf struct td_buf b = {0};
	for (int i = 0; i < 4; i++) {
		td_auto_free char *name = td_asprintf("leaf%d", i);
		a_switch(&b, i, name);
		for (int k = 0; k < 2; k++)
			td_buf_printf(&b, "[%d] \"H-%04x\"[1] # \"n%d HCA-1\" lid 2\n[%d] \"S-%04x\"[3] # \"\"\n", k,
				      0x100 + i * 2 + k, i * 2 + k, 30 + k, 0x20 + i / 2 * 2 + k);
	}
	for (int i = 0; i < 4; i++) {
		a_switch(&b, 0x20 + i, "SwitchIB Mellanox Technologies"); // not told apart by that
		td_buf_printf(&b, "[9] \"S-0040\"[%d] # \"core\"\n", i);
	}
	td_buf_puts(&b, "[10] \"H-0777\"[1] # \"storage-1 mlx5_0\" lid 9\n");
	a_switch(&b, 0x40, "core");
	const struct fabric f = {(char *)(uintptr_t)td_buf_str(&b), {NULL}, 8};
	check(&f,
	      "SwitchName=s0000000000000020.leaf0 Nodes=n[0-1]\nSwitchName=s0000000000000020.leaf1 Nodes=n[2-3]\n"
	      "SwitchName=s0000000000000022.leaf2 Nodes=n[4-5]\nSwitchName=s0000000000000022.leaf3 Nodes=n[6-7]\n"
	      "SwitchName=s0000000000000020 Switches=s0000000000000020.leaf0,s0000000000000020.leaf1\n"
	      "SwitchName=s0000000000000022 Switches=s0000000000000022.leaf2,s0000000000000022.leaf3\n"
	      "SwitchName=top Switches=s0000000000000020,s0000000000000022\n",
	      8);
}

// Eight rails: each of two units of four nodes has eight leaves, and rail r of a node is at leaf r of its unit. One cable
// is not there.
static void test_rails(void **state)
{
	(void)state;
	td_auto_buf struct td_buf b = {0};
	for (int unit = 0; unit < 2; unit++)
		for (int rail = 0; rail < 8; rail++) {
			td_auto_free char *name = td_asprintf("u%d-rail%d", unit, rail);
			a_switch(&b, 0x10 * unit + rail, name);
			for (int k = unit || rail ? 0 : 1; k < 4; k++)
				td_buf_printf(&b, "[%d] \"H-%04x\"[1] # \"n%d mlx5_%d\" lid 2\n", k,
					      0x100 * (1 + rail) + unit * 4 + k, unit * 4 + k, rail);
			td_buf_printf(&b, "[30] \"S-00ff\"[1] # \"spine\" lid 3\n");
		}
	const struct fabric f = {(char *)(uintptr_t)td_buf_str(&b), {NULL}, 8};
	check(&f,
	      "SwitchName=u0-rail0 Nodes=n[0-3]\nSwitchName=u1-rail0 Nodes=n[4-7]\n"
	      "SwitchName=top Switches=u0-rail0,u1-rail0\n",
	      8);
}

static void test_none(void **state)
{
	(void)state;
	struct td_slurm_ibnet *net = NULL;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_slurm_ibnet_read("ibwarn: can't open UMAD port\n", &net, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "names no switch"));
	td_auto_free char *big = td_malloc(TD_IBNET_MAX + 2);
	memset(big, '#', TD_IBNET_MAX + 1);
	big[TD_IBNET_MAX + 1] = '\0';
	assert_int_equal(td_slurm_ibnet_read(big, &net, &err), TD_INVALID);
	assert_null(net);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_as_printed), cmocka_unit_test(test_three_levels),
				       cmocka_unit_test(test_rails), cmocka_unit_test(test_none)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
