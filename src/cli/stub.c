typedef int td_cli_room_is_empty;
