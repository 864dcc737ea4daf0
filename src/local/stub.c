typedef int td_local_room_is_empty;
