package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
)

// structOf names the Go struct of each carried table.
var structOf = map[string]string{
	"requests_base":      "Request",
	"operations_base":    "Operation",
	"attempts_base":      "Attempt",
	"segments_base":      "Segment",
	"open_requests_base": "OpenRequest",
}

// commentsOf reads the doc comment of every column of every struct in file: struct name
// to column to text.
func commentsOf(file string) (map[string]map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the comments of the rows: %w", err)
	}
	structs := map[string]*ast.StructType{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if st, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = st
			}
		}
		return true
	})
	out := map[string]map[string]string{}
	for name, st := range structs {
		out[name] = map[string]string{}
		collect(structs, st, out[name])
	}
	return out, nil
}

func collect(structs map[string]*ast.StructType, st *ast.StructType, into map[string]string) {
	for _, field := range st.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("row")
		column, option, _ := strings.Cut(tag, ",")
		if option == "inline" {
			if ident, ok := field.Type.(*ast.Ident); ok {
				collect(structs, structs[ident.Name], into)
			}
			continue
		}
		name := ""
		if len(field.Names) > 0 {
			name = field.Names[0].Name
		}
		into[column] = sentence(name, field.Doc.Text())
	}
}

var spaces = regexp.MustCompile(`\s+`)

// sentence turns a Go comment, which begins with the field's name, into a table cell.
func sentence(name, text string) string {
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	text = strings.TrimPrefix(text, name+" is ")
	text = strings.TrimPrefix(text, name+" ")
	return strings.ReplaceAll(text, "|", `\|`)
}
