package server

import "strings"

// streamable lists the formats whose pieces can be written one after another: the engine formats each piece as a
// document of its own, so formats with a head, a tail or separators between rows must be made in one go.
var streamable = map[string]bool{
	"TabSeparated": true, "TSV": true, "TabSeparatedRaw": true, "TSVRaw": true, "Raw": true,
	"CSV": true, "TSKV": true, "LineAsString": true, "RawBLOB": true,
	"JSONEachRow": true, "JSONLines": true, "NDJSON": true, "JSONStringsEachRow": true,
	"JSONCompactEachRow": true, "JSONCompactStringsEachRow": true,
	"RowBinary": true, "Native": true, "MsgPack": true,
}

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
