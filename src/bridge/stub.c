typedef int td_bridge_room_is_empty;
