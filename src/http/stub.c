typedef int td_http_room_is_empty;
