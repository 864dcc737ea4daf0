// The SPDY part of port-forward: header blocks made by zlib with the draft's dictionary (python3's
// zlib), frames, and bytes that are wrong.
// rows: F1.4
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kubelet/stream/spdy.h"

#include <string.h>

static const char error_block[] =
	"\170\371\343\306\247\302\002\045\072\110\371\133\004\116\352\026\006\026\006\100\232\263\010\022\137\231\240"
	"\164"
	"\314\150\000\116\211\045\105\251\211\271\320\302\206\065\025\024\025\000\000\000\000\377\377";
static const char data_block[] = "\042\123\063\250\244\112\004\000\000\000\377\377";
static const char long_block[] = "\034\125\111\216\300\040\014\373\112\076\300\177\346\032\262\220\123\340\340\303\344"
				 "\367\343\116\245\026\051\010"
				 "\147\061\265\277\255\357\375\345\357\371\023\143\342\040\225\070\316\153\026\217\314"
				 "\325\370\125\125\252\031\116"
				 "\350\252\006\252\253\332\030\012\317\060\277\053\326\061\233\117\002\067\012\221\215"
				 "\266\136\236\213\130\212\155"
				 "\157\206\321\134\245\207\247\261\172\272\005\117\051\321\213\250\033\075\070\053\300"
				 "\273\252\300\173\267\237\126"
				 "\044\046\171\053\266\231\266\112\211\277\154\263\114\131\051\141\175\001\127\303\215"
				 "\043\056\353\274\320\142\311"
				 "\073\233\100\164\213\256\025\212\271\021\333\342\020\204\117\306\010\203\173\316\164"
				 "\276\265\161\332\317\304\034"
				 "\070\154\101\151\210\246\171\356\304\077\052\130\076\353\065\002\144\342\310\175\113"
				 "\372\136\162\373\020\003\277"
				 "\233\302\036\161\375\015\330\176\161\172\315\325\133\174\233\076\032\246\357\123\023"
				 "\351\235\225\036\000\333\301"
				 "\365\023\167\253\032\333\304\205\331\175\355\162\036\263\011\263\330\341\154\305\050"
				 "\341\254\242\140\373\346\035"
				 "\243\222\341\315\263\052\145\114\170\112\103\215\345\121\357\257\255\114\226\141\276"
				 "\036\133\015\154\366\161\322"
				 "\002\271\213\110\301\244\144\104\161\123\240\021\243\273\331\164\204\010\006\111\120"
				 "\150\056\262\330\121\305\251"
				 "\126\134\274\220\250\155\214\345\307\255\241\263\237\371\133\074\300\255\103\242\377"
				 "\115\057\261\227\011\265\206"
				 "\226\156\115\356\221\164\051\246\167\176\302\115\012\264\301\077\000\000\000\377\377";

static void test_headers(void **state)
{
	struct td_spdy_headers h = {0};
	struct td_error e = TD_ERROR_INIT;
	td_auto_strv struct td_strv a = {0}, b = {0}, c = {0};
	assert_int_equal(td_spdy_headers_read(&h, error_block, sizeof(error_block) - 1, &a, &e), 0);
	assert_int_equal(a.n, 6);
	assert_string_equal(a.v[0], "port");
	assert_string_equal(a.v[1], "8080");
	assert_string_equal(a.v[4], "streamtype");
	assert_string_equal(a.v[5], "error");
	assert_int_equal(td_spdy_headers_read(&h, data_block, sizeof(data_block) - 1, &b, &e),
			 0); // it refers to the first block

	assert_string_equal(b.v[5], "data");
	assert_int_equal(td_spdy_headers_read(&h, long_block, sizeof(long_block) - 1, &c, &e), 0);
	assert_int_equal(strlen(c.v[1]), 600);
	td_spdy_headers_done(&h);
}

// Headers that are cut anywhere, or have any byte changed, give an answer and nothing worse.
static void test_broken_headers(void **state)
{
	for (size_t i = 0; i < sizeof(long_block) - 1; i++)
		for (int how = 0; how < 2; how++) {
			struct td_spdy_headers h = {0};
			td_auto_strv struct td_strv a = {0}, b = {0};
			char bad[sizeof(long_block)];
			memcpy(bad, long_block, sizeof(bad));
			bad[i] = (char)(bad[i] ^ 0x55);
			assert_int_equal(td_spdy_headers_read(&h, error_block, sizeof(error_block) - 1, &a, NULL), 0);
			int r = td_spdy_headers_read(&h, bad, how ? i : sizeof(bad) - 1, &b, NULL);
			assert_true(r == 0 || r == TD_INVALID);
			td_spdy_headers_done(&h);
		}
}

static void test_frames(void **state)
{
	td_auto_buf struct td_buf b = {0};
	struct td_spdy_frame f;
	struct td_error e = TD_ERROR_INIT;
	size_t used;
	bool begun = false;

	td_spdy_data(&b, 3, TD_SPDY_FIN, "abc", 3);
	td_spdy_ping(&b, 7);
	for (size_t n = 0; n < 11; n++) {
		assert_int_equal(td_spdy_frame_read(b.s, n, &f, &used, &e), 0);
		assert_int_equal(used, 0);
	}

	assert_int_equal(td_spdy_frame_read(b.s, b.len, &f, &used, &e), 0);
	assert_true(used == 11 && f.type == TD_SPDY_DATA && f.stream == 3 && f.flags == TD_SPDY_FIN && f.n == 3 &&
		    !memcmp(f.data, "abc", 3));
	assert_int_equal(td_spdy_frame_read(b.s + 11, b.len - 11, &f, &used, &e), 0);
	assert_true(used == 12 && f.type == TD_SPDY_PING && f.stream == 7);

	td_buf_reset(&b);
	td_spdy_reply(&b, 1, &begun);
	assert_int_equal(b.len, 8 + 4 + 16);
	td_spdy_reply(&b, 3, &begun);
	assert_int_equal(b.len, 28 + 26);
	// Version 2; 16 MB; a SYN_STREAM of nothing.
	assert_int_equal(td_spdy_frame_read("\200\002\0\001\0\0\0\0", 8, &f, &used, &e), TD_INVALID);
	assert_int_equal(td_spdy_frame_read("\0\0\0\1\0\377\0\0", 8, &f, &used, &e), TD_INVALID);
	assert_int_equal(td_spdy_frame_read("\200\003\0\001\0\0\0\0", 8, &f, &used, &e), TD_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_headers), cmocka_unit_test(test_broken_headers),
					   cmocka_unit_test(test_frames)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
