package server

import (
	"slices"
	"strings"

	"driftline/internal/chdb"
)

// reaching are names that, called like a function or given as an engine, make the engine read or write outside its own
// folder: files of this machine, programs, other servers. Whoever can reach the endpoint would have the engine's rights on them.
var reaching = func() map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(`
		file filecluster filesystem filelog disk local executable executablepool python
		url urlcluster http https s3 s3cluster s3queue gcs oss cosn hdfs hdfscluster azureblobstorage azureblobstoragecluster azurequeue
		iceberg iceberglocal icebergs3 icebergazure iceberghdfs deltalake deltalakelocal deltalakes3 deltalakeazure hudi paimon hive
		remote remotesecure mysql postgresql materializedpostgresql mongodb mongo redis sqlite odbc jdbc ytsaurus arrowflight
		kafka rabbitmq nats
		embeddedrocksdb datalakecatalog`) {
		out[name] = true
	}
	return out
}()

// reachesOutside returns the name of what in sql reaches outside the engine's folder, or "".
func reachesOutside(sql string) string {
	l := &lexer{text: []byte(sql)}
	name, engine, attach, previous := "", 0, false, ""
	from := map[int]bool{} // by depth: whether table names follow a comma
	for {
		t := l.next()
		if t.kind == tokenEnd {
			return ""
		}
		text := sql[t.start:t.end]
		if text == "(" && name != "" {
			return name
		}
		name = reachingName(t.kind, text)
		word := strings.ToUpper(text)
		if t.kind == tokenQuoted && namesFile(previous, text) {
			return "a file's name as a table"
		}
		previous = word
		switch word {
		case "FROM":
			from[t.depth] = true
		case "(":
			from[l.depth] = false
		case ",":
			if from[t.depth] {
				previous = ", in FROM"
			}
		case "SELECT", "WHERE", "PREWHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SETTINGS", "UNION", "WINDOW", "QUALIFY", "ON", "USING":
			from[t.depth] = false
		}
		switch {
		case engine > 0 && name != "":
			return name
		case attach && t.kind == tokenQuoted && text[0] == '\'':
			return "ATTACH ... FROM"
		}
		// ENGINE = Name, with or without the sign.
		engine = max(0, engine-1)
		if word == "ENGINE" {
			engine = 2
		}
		attach = word == "FROM" && strings.HasPrefix(strings.ToUpper(strings.TrimSpace(sql)), "ATTACH")
	}
}

// namesFile says whether a quoted name after the word or sign previous may be a file: the engine's default database shows
// every file of the machine as a table.
func namesFile(previous, quoted string) bool {
	inside := strings.Trim(quoted, "`\"'")
	switch previous {
	case "FROM", "JOIN", "INTO", "TABLE", "IN", "EXISTS", "DESCRIBE", "DESC", "VIEW", ".":
		return strings.ContainsAny(inside, `/\`) || quoted[0] == '\'' && previous != "IN"
	case ", in FROM":
		return strings.ContainsAny(inside, `/\`) || quoted[0] == '\''
	}
	return false
}

// parameterNamesFile says the same of statements that take names as parameters.
func parameterNamesFile(sql string, params []chdb.Param) bool {
	if !strings.Contains(strings.ToUpper(sql), "IDENTIFIER") {
		return false
	}
	return slices.ContainsFunc(params, func(p chdb.Param) bool { return strings.ContainsAny(p.Value, `/\`) })
}

// reachingName is the name that a token stands for if it is one of those that reach outside. Underlines do not tell names apart.
func reachingName(kind tokenKind, text string) string {
	switch {
	case kind == tokenQuoted && text[0] != '\'' && text[0] != '$':
		if strings.Contains(text, `\`) {
			return text // an escaped name has no good use
		}
		text = strings.Trim(text, "`\"")
	case kind != tokenWord:
		return ""
	}
	if reaching[strings.ToLower(strings.ReplaceAll(text, "_", ""))] {
		return text
	}
	return ""
}
