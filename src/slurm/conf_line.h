// Reads the lines of Slurm's configuration files (slurm.conf(5)): "Key=Value" pairs between blanks, '#'
// for a comment, '\' at the end for a line that goes on, and '"' around values with blanks.
#pragma once

#include "base/mem.h"

struct td_slurm_pair {
	char *key, *value;
};
struct td_slurm_line {
	size_t at; // its number in the file, from 1
	struct td_slurm_pair *v;
	size_t n; // at least 1 in a list of lines
};
struct td_slurm_lines {
	struct td_slurm_line *v;
	size_t n;
	struct td_strv bad; // words that are no pair: "LINE: what"
};
void td_slurm_lines_read(const char *text, struct td_slurm_lines *ret);
void td_slurm_lines_done(struct td_slurm_lines *l);
#define td_auto_lines __attribute__((cleanup(td_slurm_lines_done)))
// Sets the value of a key, whose case does not matter.
void td_slurm_line_set(struct td_slurm_line *l, const char *key, const char *value);
void td_slurm_line_done(struct td_slurm_line *l);
#define td_auto_line __attribute__((cleanup(td_slurm_line_done)))
