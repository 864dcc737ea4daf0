// Passwords of people, kept as PBKDF2-HMAC-SHA256 (RFC 8018) with a random salt each.
#pragma once

#include <stdbool.h>

// The text to keep: "pbkdf2-sha256$ITERATIONS$SALT$HASH". The caller frees it.
char *td_password_hash(const char *password);
// Whether this is the password that `kept` was made from. It takes as long for a wrong one. A text
// that is no hash fits no password.
bool td_password_fits(const char *password, const char *kept);
// Compares secrets in a time that does not depend on where they differ.
bool td_password_same(const char *a, const char *b);
