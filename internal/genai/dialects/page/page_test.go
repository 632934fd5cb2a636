package main

import (
	"os"
	"testing"
)

func TestThePageSaysWhatTheDocumentsSay(t *testing.T) {
	got, err := os.ReadFile("../../../../docs/dialects.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := page()
	if err != nil {
		t.Fatal(err)
	}
	if want != string(got) {
		t.Fatal("docs/dialects.md is not what the documents say: run `go generate ./internal/genai/dialects`")
	}
}
