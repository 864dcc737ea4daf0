// Every role and command: argv[0] is its name; the return value is the exit code (0, 1 failure, 2 usage).
#pragma once

int td_apiserver_main(int argc, char **argv);
int td_controllers_main(int argc, char **argv);
int td_agent_main(int argc, char **argv); // gate
int td_kubelet_main(int argc, char **argv);
int td_sandbox_main(int argc, char **argv); // oci
int td_operator_main(int argc, char **argv);
int td_bridge_main(int argc, char **argv);
int td_supervise_main(int argc, char **argv); // local
int td_down_main(int argc, char **argv);
int td_up_main(int argc, char **argv); // cli from here on
int td_status_main(int argc, char **argv);
int td_env_main(int argc, char **argv);
int td_shell_main(int argc, char **argv);
int td_why_main(int argc, char **argv);
int td_image_main(int argc, char **argv);
int td_validate_main(int argc, char **argv);
int td_install_main(int argc, char **argv);
int td_uninstall_main(int argc, char **argv);
