package main

import (
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestCurlCommandAsks sends the request that curl sends in ask.sh. The tutorial shows that file.
func TestCurlCommandAsks(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	command, err := os.ReadFile("ask.sh")
	if err != nil {
		t.Fatal(err)
	}
	arguments := regexp.MustCompile(`(?s)-([Hd]) '([^']*)'`).FindAllStringSubmatch(string(command), -1)
	request := httptest.NewRequest("POST", "http://localhost:8080/mcp", nil)
	for _, argument := range arguments {
		if name, value, _ := strings.Cut(argument[2], ": "); argument[1] == "H" {
			request.Header.Set(name, value)
		} else {
			request.Body = io.NopCloser(strings.NewReader(argument[2]))
		}
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if text := answer.Body.String(); !strings.Contains(text, `"message":"How many people?"`) ||
		!strings.Contains(text, `"requestState":"`) {
		t.Errorf("status %d: %s", answer.Code, text)
	}
}
