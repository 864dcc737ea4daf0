typedef int td_metrics_room_is_empty;
