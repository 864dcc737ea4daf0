typedef int td_agent_room_is_empty;
