"""A campaign against runs: commands are killed, ended and starved of disk, then started again."""
