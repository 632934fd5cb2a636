package chdb

// WantVersion is the major.minor version of libchdb whose C interface this package binds.
const WantVersion = "26.7"

// requiredSymbols is what a library must export to be used; a test keeps it equal to the bindings.
var requiredSymbols = []string{
	"chdb_classify_query_n",
	"chdb_close_conn",
	"chdb_connect",
	"chdb_destroy_insert_stream",
	"chdb_destroy_query_result",
	"chdb_query_n",
	"chdb_query_with_params_n",
	"chdb_result_buffer",
	"chdb_result_bytes_read",
	"chdb_result_bytes_written",
	"chdb_result_elapsed",
	"chdb_result_error",
	"chdb_result_length",
	"chdb_result_rows_read",
	"chdb_result_rows_written",
	"chdb_result_storage_bytes_read",
	"chdb_result_storage_rows_read",
	"chdb_set_signal_handlers_enabled",
	"chdb_stream_append",
	"chdb_stream_cancel_insert",
	"chdb_stream_cancel_query",
	"chdb_stream_done",
	"chdb_stream_fetch_result",
	"chdb_stream_insert_error",
	"chdb_stream_insert_n",
	"chdb_stream_insert_with_params_n",
	"chdb_stream_query_n",
	"chdb_stream_query_with_params_n",
	"chdb_version",
}
