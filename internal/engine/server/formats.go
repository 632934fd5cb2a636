package server

import "strings"

// contentType returns the media type of a format, as ClickHouse names it.
func contentType(format string) string {
	switch {
	case format == "JSONEachRow" || format == "JSONLines" || format == "NDJSON" || strings.HasPrefix(format, "JSONCompact") && strings.Contains(format, "EachRow") || strings.HasPrefix(format, "JSONStringsEachRow"):
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "JSON"):
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "CSVWithNames"):
		return "text/csv; charset=UTF-8; header=present"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=absent"
	case strings.HasPrefix(format, "TabSeparated") || strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case format == "XML":
		return "application/xml; charset=UTF-8"
	case format == "Native", strings.HasPrefix(format, "RowBinary"), format == "MsgPack", format == "Parquet",
		strings.HasPrefix(format, "Arrow"), format == "ORC", format == "Avro", format == "RawBLOB", format == "Npy":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
