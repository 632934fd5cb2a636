//go:build linux || darwin

package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"driftline/internal/chdb"
)

// entry is a statement that runs or waits for its turn.
type entry struct {
	user, text string
	cancel     context.CancelCauseFunc
	done       chan struct{}
}

// errKilled ends a statement that KILL QUERY named.
func errKilled(id string) error {
	return &chdb.Error{Code: codeQueryCancelled, Name: "QUERY_WAS_CANCELLED", Message: fmt.Sprintf("Query %s was cancelled by KILL QUERY.", id)}
}

// register notes a statement under its id, which must not be in use, until the returned function is called.
func (s *Server) register(req *request, cancel context.CancelCauseFunc) (func(), error) {
	s.runningMu.Lock()
	defer s.runningMu.Unlock()
	if s.running[req.queryID] != nil {
		return nil, &chdb.Error{Code: codeSameQueryID, Name: "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", Message: fmt.Sprintf("Query with id = %s is already running.", req.queryID)}
	}
	e := &entry{user: s.opt.User, text: req.statement.sql, cancel: cancel, done: make(chan struct{})}
	s.running[req.queryID] = e
	return func() {
		s.runningMu.Lock()
		delete(s.running, req.queryID)
		s.runningMu.Unlock()
		close(e.done)
	}, nil
}

// kill is a KILL QUERY statement that names statements by the ids of this endpoint's requests. The engine has ids of its own,
// which are in no reply.
type kill struct {
	ids        []string
	sync, test bool
}

const killForms = "KILL QUERY is supported as KILL QUERY WHERE query_id = '…' or query_id IN ('…', …), with SYNC, ASYNC or TEST: query_id is the one in the reply's X-ClickHouse-Query-Id"

// parseKill takes a KILL QUERY statement apart; nil and no error for any other statement.
func parseKill(st *statement, params []chdb.Param) (*kill, error) {
	if st.keyword != "KILL" || st.second != "QUERY" {
		return nil, nil
	}
	words, format := killWords(st.sql), false
	k := &kill{}
	if len(words) < 6 || !strings.EqualFold(words[2], "WHERE") || !strings.EqualFold(words[3], "query_id") {
		return nil, refuse(killForms)
	}
	rest := words[4:]
	switch {
	case rest[0] == "=":
		if rest[1] == "=" {
			rest = rest[1:]
		}
		id, tail, ok := killID(rest[1:], params)
		if !ok {
			return nil, refuse(killForms)
		}
		k.ids, rest = []string{id}, tail
	case strings.EqualFold(rest[0], "IN") && rest[1] == "(":
		rest = rest[1:]
		for len(rest) > 0 && (rest[0] == "(" || rest[0] == ",") {
			id, tail, ok := killID(rest[1:], params)
			if !ok {
				return nil, refuse(killForms)
			}
			k.ids, rest = append(k.ids, id), tail
		}
		if len(rest) == 0 || rest[0] != ")" {
			return nil, refuse(killForms)
		}
		rest = rest[1:]
	default:
		return nil, refuse(killForms)
	}
	for _, word := range rest {
		switch word = strings.ToUpper(word); {
		case format:
			format = false // the format's name
		case word == "SYNC":
			k.sync = true
		case word == "TEST":
			k.test = true
		case word == "FORMAT":
			format = true
		case word == "ASYNC", word == ";":
		default:
			return nil, refuse(killForms)
		}
	}
	return k, nil
}

func killWords(sql string) (words []string) {
	l := &lexer{text: []byte(sql)}
	var last token
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		if t.kind == tokenQuoted && last.kind == tokenQuoted && last.end == t.start {
			// A doubled quote inside a text.
			words[len(words)-1] += sql[t.start:t.end]
		} else {
			words = append(words, sql[t.start:t.end])
		}
		last = t
	}
	return words
}

// killID reads one id: a text in quotes, or a parameter.
func killID(words []string, params []chdb.Param) (id string, rest []string, ok bool) {
	if len(words) == 0 {
		return "", nil, false
	}
	if w := words[0]; len(w) >= 2 && w[0] == '\'' {
		return strings.NewReplacer(`\\`, `\`, `\'`, `'`, `''`, `'`).Replace(w[1 : len(w)-1]), words[1:], true
	}
	if len(words) >= 5 && words[0] == "{" && words[2] == ":" && words[4] == "}" {
		i := slices.IndexFunc(params, func(p chdb.Param) bool { return p.Name == words[1] })
		if i >= 0 {
			return params[i].Value, words[5:], true
		}
	}
	return "", nil, false
}

// runKill cancels what the statement names and answers as ClickHouse does, with a row for each statement found. It needs no slot, so
// that it works when all are taken.
func (s *Server) runKill(ctx context.Context, k *kill, req *request, rep *reply) error {
	var found []string
	for _, id := range k.ids {
		s.runningMu.Lock()
		e := s.running[id]
		s.runningMu.Unlock()
		if e == nil {
			continue
		}
		status := "waiting"
		if !k.test {
			e.cancel(errKilled(id))
		}
		if k.sync && !k.test {
			timer := time.NewTimer(s.opt.QueueTimeout)
			select {
			case <-e.done:
				status = "finished"
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		found = append(found, "("+quoteText(status)+", "+quoteText(id)+", "+quoteText(e.user)+", "+quoteText(e.text)+")")
	}
	const structure = "'kill_status String, query_id String, user String, query String'"
	req.statement = statement{keyword: "SELECT"}
	req.database, req.params, req.settings, req.readonly = "", nil, nil, false
	if req.statement.sql = "SELECT * FROM values(" + structure + ", " + strings.Join(found, ", ") + ")"; len(found) == 0 {
		req.statement.sql = "SELECT * FROM values(" + structure + ", ('', '', '', '')) WHERE query_id != ''"
	}
	return s.run(ctx, req, rep)
}
