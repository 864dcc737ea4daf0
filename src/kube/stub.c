typedef int td_kube_room_is_empty;
