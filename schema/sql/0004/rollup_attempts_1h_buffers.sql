MODIFY SETTING max_compress_block_size = 65536
