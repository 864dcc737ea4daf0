typedef int td_pool_room_is_empty;
