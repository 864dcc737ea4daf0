typedef int td_api_room_is_empty;
