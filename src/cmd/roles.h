// The entry points of all roles and commands. argv[0] is the name; the return value is the exit
// code: 0 done, 1 failed, 2 wrong usage. A comment names the room where it differs from the name.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct td_cmd {
	const char *name;
	int (*main)(int, char **);
	const char *help; // NULL: not in the help
	// It runs for long and holds many connections: a role that `up` or an installation starts, not a
	// command for people.
	bool serves;
};

int td_apiserver_main(int argc, char **argv);
int td_controllers_main(int argc, char **argv);
int td_agent_main(int argc, char **argv); // room gate
int td_kubelet_main(int argc, char **argv);
int td_sandbox_main(int argc, char **argv); // room oci
int td_operator_main(int argc, char **argv);
int td_bridge_main(int argc, char **argv);
int td_gateway_main(int argc, char **argv);
int td_home_io_main(int argc, char **argv);       // room gateway
int td_policies_host_main(int argc, char **argv); // room bridge
int td_supervise_main(int argc, char **argv);     // room local, as the next
int td_down_main(int argc, char **argv);
// The rest is in room cli.
int td_up_main(int argc, char **argv);
int td_status_main(int argc, char **argv);
int td_env_main(int argc, char **argv);
int td_shell_main(int argc, char **argv);
int td_stacks_main(int argc, char **argv);
int td_why_main(int argc, char **argv);
int td_nodes_main(int argc, char **argv);
int td_node_main(int argc, char **argv);
int td_join_main(int argc, char **argv);
int td_host_main(int argc, char **argv);
int td_adopt_main(int argc, char **argv);
int td_netboot_main(int argc, char **argv);
int td_upgrade_main(int argc, char **argv);
int td_history_main(int argc, char **argv);
int td_fault_main(int argc, char **argv);
int td_gpu_test_main(int argc, char **argv);
int td_gds_check_main(int argc, char **argv);
int td_image_main(int argc, char **argv);
int td_quota_main(int argc, char **argv);
int td_usage_main(int argc, char **argv);
int td_validate_main(int argc, char **argv);
int td_annotations_main(int argc, char **argv);
int td_config_main(int argc, char **argv);
int td_login_main(int argc, char **argv);
int td_logout_main(int argc, char **argv);
int td_kubeconfig_main(int argc, char **argv);
int td_submit_main(int argc, char **argv);
int td_queue_main(int argc, char **argv);
int td_ps_main(int argc, char **argv);
int td_logs_main(int argc, char **argv);
int td_cancel_main(int argc, char **argv);
int td_schedule_main(int argc, char **argv);
int td_session_main(int argc, char **argv);
int td_ssh_main(int argc, char **argv);
int td_ssh_config_main(int argc, char **argv);
int td_ssh_proxy_main(int argc, char **argv);
int td_data_main(int argc, char **argv);
int td_bill_main(int argc, char **argv);
int td_key_main(int argc, char **argv);
int td_project_main(int argc, char **argv);
int td_top_main(int argc, char **argv);
int td_upload_main(int argc, char **argv);
int td_download_main(int argc, char **argv);
int td_user_main(int argc, char **argv);
int td_install_main(int argc, char **argv);
int td_uninstall_main(int argc, char **argv);
// `tandem completion`, from the option tables of these commands. Returns the exit code.
int td_cli_completion(int argc, char **argv, const struct td_cmd *roles, size_t n);
