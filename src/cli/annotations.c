// tandem annotations: what a pod may say to Slurm.
#include "api/annotations.h"
#include "base/names.h"
#include "base/options.h"
#include "cli/common.h"
#include "cmd/roles.h"

#include <stdio.h>

static void table(void)
{
	for (size_t i = 0; i < TD_ASKS_KEYS; i++) {
		const struct td_annotation *a = &td_annotations[i];
		printf("%s%s\n    %s (sbatch %s)\n    value:      %s\n    without it: %s\n    example:    %s: \"%s\"\n",
		       i ? "\n" : "", a->name, a->meaning, a->option, td_annotation_values(a->form), a->without,
		       a->name, a->example);
	}
	puts("\n" TD_LABEL_GANG " and " TD_LABEL_GANG_ROLE " (labels), " TD_ANN_GANG_SIZE ", " TD_ANN_GANG_MIN
	     ", " TD_ANN_GANG_LATER ", " TD_ANN_GANG_LOSS
	     "\n    pods that start together or not at all, as one job, with or without more that join: docs/gangs.md");
}

static void json(void)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	yyjson_mut_val *items = td_jm_arr(d, root, "items");
	for (size_t i = 0; i < TD_ASKS_KEYS; i++) {
		const struct td_annotation *a = &td_annotations[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, items);
		td_jm_str(d, o, "name", a->name);
		td_jm_str(d, o, "option", a->option);
		td_jm_str(d, o, "meaning", a->meaning);
		td_jm_str(d, o, "value", td_annotation_values(a->form));
		td_jm_str(d, o, "without", a->without);
		td_jm_str(d, o, "example", a->example);
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

int td_annotations_main(int argc, char **argv)
{
	const char *output = NULL;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
	};
	td_auto_buf struct td_buf about = {0};
	td_buf_puts(&about,
		    "Lists the annotations by which a pod of a SlurmCluster's scheduler asks something of Slurm.\n"
		    "A key below slurm.tandem.dev/ that is not listed is refused by name. Known are:");
	for (size_t i = 0; i < TD_ASKS_KEYS; i++)
		td_buf_printf(&about, "\n  %s", td_annotations[i].name);
	const struct td_command line = {.name = "annotations",
					.about = td_buf_str(&about),
					.options = options,
					.n = TD_LEN(options),
					.exits = "0 done, 2 wrong usage."};
	int code;
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (output)
		json();
	else
		table();
	return 0;
}
