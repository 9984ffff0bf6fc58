"""From records to tables: each module one transform, a pure function from frames to a frame."""
