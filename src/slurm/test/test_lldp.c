// Places of nodes from what lldpctl prints on nodes and switches.
// rows: A9.3
#include "slurm/lldp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FORWARDS                                                                                                       \
	"\"capability\": [{\"type\": \"Bridge\", \"enabled\": true}, {\"type\": \"Router\", \"enabled\": false}]"
#define STATION                                                                                                        \
	"\"capability\": [{\"type\": \"Bridge\", \"enabled\": false}, {\"type\": \"Station\", \"enabled\": true}]"
// A cable: at this interface of the device, to the port of another device.
#define SEES(interface, device, port, capability)                                                                      \
	"{\"" interface "\": {\"via\": \"LLDP\", \"rid\": \"1\", \"age\": \"0 day, 00:03:11\", \"chassis\": "          \
	"{\"" device                                                                                                   \
	"\": {\"id\": {\"type\": \"mac\", \"value\": \"b8:3f:d2:00:00:01\"}, \"descr\": \"a switch\", " capability     \
	"}}, \"port\": {\"id\": {\"type\": \"ifname\", \"value\": \"" port "\"}, \"ttl\": \"120\"}}}"
#define DEVICE(name, sights) "\"" name "\": {\"lldp\": {\"interface\": [" sights "]}}"
#define LEAF(interface, leaf) SEES(interface, leaf, "Ethernet1", FORWARDS)

struct net {
	const char *text;
	const char *ids[6]; // of n0 to n5, separated by commas; NULL: none
};

static void check(const struct net *x, const char *want, size_t want_found)
{
	struct td_slurm_place places[6] = {0};
	struct td_strv ids[6] = {0};
	static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5"};
	td_auto(td_slurm_ibnet_free) struct td_slurm_ibnet *net = NULL;
	struct td_error err = TD_ERROR_INIT;
	size_t found;
	for (size_t i = 0; i < 6; i++) {
		places[i].node = names[i];
		if (x->ids[i])
			td_strv_split(&ids[i], x->ids[i], ',');
	}
	assert_true(td_slurm_lldp_is(x->text));
	if (td_slurm_lldp_read(x->text, places, ids, 6, &net, &err))
		fail_msg("%s", err.msg);
	size_t levels = td_slurm_ibnet_places(net, places, ids, 6, &found);
	td_auto_free char *conf = td_slurm_topology_conf(places, 6, levels);
	assert_string_equal(strchr(conf, '\n') + 1, want);
	assert_int_equal(found, want_found);
	for (size_t i = 0; i < 6; i++) {
		for (size_t k = 0; k < TD_SLURM_LEVELS; k++)
			free((char *)(uintptr_t)places[i].at[k]);
		td_strv_done(&ids[i]);
	}
}

// What only the nodes see. n1 has one interface, and is known with its domain; n4 sees a host and a switch without a name;
// nobody asked n3, and n5 says nothing.
#define NODES                                                                                                          \
	DEVICE("n0", LEAF("eth1", "leaf-1.example.com"))                                                               \
	", \"n1.example.com\": {\"lldp\": {\"interface\": " LEAF("eth1", "leaf-1.example.com") "}}, " DEVICE(          \
		"n2", LEAF("eth1", "leaf-2") ", " SEES(                                                                \
			      "eth9", "n0", "eth9",                                                                    \
			      STATION)) ", " DEVICE("n4", SEES("eth1", "printer", "p",                                 \
							       STATION) ", " UNNAMED) ", \"n5\": {\"lldp\": {}}"
#define UNNAMED "{\"eth2\": {\"chassis\": {\"id\": {\"type\": \"mac\", \"value\": \"b8:3f:d2:00:00:07\"}}}}"
static void what_nodes_see(void **state)
{
	(void)state;
	const struct net x = {" {" NODES "}", {NULL}};
	check(&x,
	      "SwitchName=b8 Nodes=n4\nSwitchName=elsewhere Nodes=n[3,5]\nSwitchName=leaf-1-example-com Nodes=n[0-1]\n"
	      "SwitchName=leaf-2 Nodes=n2\nSwitchName=top Switches=b8,elsewhere,leaf-1-example-com,leaf-2\n",
	      4);
}

// Two spines over two leaves each, which a core joins. Storage at two leaves joins nothing, though it forwards; n3 is seen
// by its leaf alone.
static void what_switches_see(void **state)
{
	(void)state;
	const struct net x = {
		"{" DEVICE("n0", LEAF("eth1", "leaf-1")) ", " DEVICE("n1", LEAF("eth1", "leaf-2")) ", " DEVICE("n2", LEAF("eth1", "leaf-3")) ", " DEVICE(
			"leaf-4",
			SEES("Ethernet1", "n3.example.com", "eth1", STATION) ", " SEES(
				"Ethernet9", "storage",
				"eth1", FORWARDS)) ", " DEVICE("leaf-1",
							       SEES("Ethernet9", "storage", "eth2",
								    FORWARDS)) ", " DEVICE("spine-1",
											   LEAF("Ethernet1", "leaf-1") ", " LEAF("Ethernet2", "leaf-2") ", " LEAF(
												   "Ethernet3",
												   "core")) ", " DEVICE("spine-2",
															LEAF("Etherne"
															     "t1",
															     "leaf-"
															     "3") ", " LEAF("Etherne"
																	    "t2",
																	    "leaf-"
																	    "4")) ","
																		  " " DEVICE(
																			  "core",
																			  LEAF("Ethernet1", "spine-1") ", " LEAF(
																				  "Ethernet2",
																				  "spine-2")) "}",
		{NULL}};
	check(&x,
	      "SwitchName=elsewhere.elsewhere Nodes=n[4-5]\nSwitchName=spine-1.leaf-1 "
	      "Nodes=n0\nSwitchName=spine-1.leaf-2 Nodes=n1\n"
	      "SwitchName=spine-2.leaf-3 Nodes=n2\nSwitchName=spine-2.leaf-4 Nodes=n3\n"
	      "SwitchName=elsewhere Switches=elsewhere.elsewhere\nSwitchName=spine-1 "
	      "Switches=spine-1.leaf-1,spine-1.leaf-2\n"
	      "SwitchName=spine-2 Switches=spine-2.leaf-3,spine-2.leaf-4\nSwitchName=top "
	      "Switches=elsewhere,spine-1,spine-2\n",
	      4);
}

// All hang at the switch for people, too; where the agents name the GPUs' plane only its interfaces count.
static void planes(void **state)
{
	(void)state;
	static const char text[] = "{" DEVICE("n0", LEAF("eth1", "leaf-1") ", " LEAF("eno1", "office")) ", " DEVICE(
		"n1",
		LEAF("eth1", "leaf-2") ", " LEAF(
			"eno1", "office")) ", " DEVICE("n2",
						       LEAF("eno1", "office")) ", " DEVICE("office",
											   SEES("Ethernet1", "n0",
												"eno1", STATION)) "}";
	const struct net all = {.text = text},
			 gpu = {.text = text, .ids = {"@eth1,@", "506b:4b03:0000:0001,@eth1,@", "@"}};
	check(&all,
	      "SwitchName=elsewhere Nodes=n[3-5]\nSwitchName=leaf-1 Nodes=n[0-2]\nSwitchName=top "
	      "Switches=elsewhere,leaf-1\n",
	      3);
	check(&gpu,
	      "SwitchName=elsewhere Nodes=n[2-5]\nSwitchName=leaf-1 Nodes=n0\nSwitchName=leaf-2 Nodes=n1\n"
	      "SwitchName=top Switches=elsewhere,leaf-1,leaf-2\n",
	      2);
}

// What lldpd 1.0.16 said at both ends of a cable; neither end's list of one interface is a list. Who
// asked called them by their names without a domain.
static void as_printed(void **state)
{
	(void)state;
	const struct net x = {
		"{\"n0\":{\"lldp\":{\"interface\":{\"eth1\":{\"via\":\"LLDP\",\"rid\":\"1\",\"age\":\"0 day, 00:"
		"00:08\",\"chassis\":{\"leaf-1.example.com\":{\"id\":{\"type\":\"mac\",\"value\":\"86:de:a9:5c:a"
		"5:47\"},\"descr\":\"Debian GNU/Linux 12\",\"mgmt-ip\":\"fe80::b440:36ff:fe13:fdef\",\"mgmt-ifac"
		"e\":\"3\",\"capability\":[{\"type\":\"Bridge\",\"enabled\":true},{\"type\":\"Router\",\"enabled"
		"\":true},{\"type\":\"Wlan\",\"enabled\":false},{\"type\":\"Station\",\"enabled\":false}]}},\"po"
		"rt\":{\"id\":{\"type\":\"mac\",\"value\":\"86:de:a9:5c:a5:47\"},\"descr\":\"Ethernet1\",\"ttl\""
		":\"8\"}}}}},\"leaf-1\":{\"lldp\":{\"interface\":{\"Ethernet1\":{\"via\":\"LLDP\",\"rid\":\"1\","
		"\"age\":\"0 day, 00:00:06\",\"chassis\":{\"n0.example.com\":{\"id\":{\"type\":\"mac\",\"value\""
		":\"fa:94:f1:f1:58:d0\"},\"descr\":\"Debian GNU/Linux 12\",\"mgmt-ip\":\"fe80::f894:f1ff:fef1:58"
		"d0\",\"mgmt-iface\":\"2\",\"capability\":[{\"type\":\"Bridge\",\"enabled\":false},{\"type\":\"R"
		"outer\",\"enabled\":false},{\"type\":\"Wlan\",\"enabled\":false},{\"type\":\"Station\",\"enable"
		"d\":true}]}},\"port\":{\"id\":{\"type\":\"mac\",\"value\":\"fa:94:f1:f1:58:d0\"},\"descr\":\"et"
		"h1\",\"ttl\":\"8\"}}}}}}",
		{NULL}};
	check(&x,
	      "SwitchName=elsewhere Nodes=n[1-5]\nSwitchName=leaf-1 Nodes=n0\n"
	      "SwitchName=top Switches=elsewhere,leaf-1\n",
	      1);
}

static void refused(const char *text, const char *part)
{
	const struct td_slurm_place places[1] = {{.node = "n0"}};
	const struct td_strv ids[1] = {0};
	struct td_slurm_ibnet *net = NULL;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_slurm_lldp_read(text, places, ids, 1, &net, &err), TD_INVALID);
	if (!strstr(err.msg, part))
		fail_msg("%s", err.msg);
	assert_null(net);
}

static void no_answers(void **state)
{
	(void)state;
	refused("{", "it begins as JSON does, and is none");
	refused("{}", "no node sees a switch in it");
	refused("{\"lldp\": {\"interface\": {}}}", "by the names of nodes and switches");
	refused("{" DEVICE("n0", SEES("eth1", "printer", "p", STATION)) "}", "no node sees a switch");
	refused("{\"n0\": {\"lldp\": {\"interface\": [1, [], {\"eth1\": {\"chassis\": []}}, {\"eth2\": {\"chassis\": "
		"{\"\": {}}}}]}}}",
		"no node sees a switch");
	td_auto_free char *long_one = td_calloc(1, TD_IBNET_MAX + 2);
	memset(long_one, ' ', TD_IBNET_MAX + 1);
	refused(long_one, "longer than 1024 KiB");
	assert_false(td_slurm_lldp_is("Switch 40") || td_slurm_lldp_is(""));
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(what_nodes_see), cmocka_unit_test(what_switches_see),
				       cmocka_unit_test(planes), cmocka_unit_test(as_printed),
				       cmocka_unit_test(no_answers)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
