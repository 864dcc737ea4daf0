// rows: D5.4
#include "far/copy.h"
#include "far/far.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
int main(void){ return 0; }
