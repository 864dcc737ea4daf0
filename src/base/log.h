// Logging: one line per event on stderr, "TIME LEVEL role: text". Libraries log at debug level
// only.
#pragma once

enum td_log_level { TD_LOG_DEBUG, TD_LOG_INFO, TD_LOG_WARN, TD_LOG_ERROR };

// Call it once at start; it is not thread-safe. The pointer `role` is kept, not copied.
void td_log_init(const char *role, enum td_log_level level);
// Parses "debug", "info", "warn" or "error". Returns -1 for anything else.
int td_log_level_parse(const char *s);
void td_log_at(enum td_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define td_debug(...) td_log_at(TD_LOG_DEBUG, __VA_ARGS__)
#define td_info(...) td_log_at(TD_LOG_INFO, __VA_ARGS__)
#define td_warn(...) td_log_at(TD_LOG_WARN, __VA_ARGS__)
#define td_err(...) td_log_at(TD_LOG_ERROR, __VA_ARGS__)
