typedef int td_oci_room_is_empty;
