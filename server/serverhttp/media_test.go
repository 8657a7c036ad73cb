package serverhttp_test

import (
	"fmt"
	"net/http"
	"testing"
)

func TestMediaTypes(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	tests := []struct {
		name   string
		header string
		values []string // nil: the header is left out
		status int
	}{
		{"JSON", "Content-Type", []string{"application/json"}, 200},
		{"JSON in UTF-8", "Content-Type", []string{"application/json; charset=utf-8"}, 200},
		{"JSON in quoted UTF-8", "Content-Type", []string{`Application/JSON;charset="UTF-8"`}, 200},
		{"JSON with another parameter", "Content-Type", []string{"application/json; profile=x"},
			200},
		{"JSON in Latin 1", "Content-Type", []string{"application/json; charset=iso-8859-1"}, 415},
		{"JSON in UTF-16", "Content-Type", []string{"application/json; charset=utf-16"}, 415},
		{"no Content-Type", "Content-Type", nil, 415},
		{"empty Content-Type", "Content-Type", []string{""}, 415},
		{"form", "Content-Type", []string{"application/x-www-form-urlencoded"}, 415},
		{"plain text, which needs no preflight", "Content-Type", []string{"text/plain"}, 415},
		{"two", "Content-Type", []string{"application/json", "application/json"}, 415},
		{"broken parameter", "Content-Type",
			[]string{"application/json; charset=utf-8; charset=utf-16"}, 415},

		{"both", "Accept", []string{"application/json, text/event-stream"}, 200},
		{"both, two lines", "Accept", []string{"application/json", "text/event-stream"}, 200},
		{"no Accept", "Accept", nil, 200},
		{"JSON only", "Accept", []string{"application/json"}, 200},
		{"events only", "Accept", []string{"text/event-stream"}, 200},
		{"neither", "Accept", []string{"text/html"}, 406},
		{"weight not a number", "Accept", []string{"application/json;q=NaN, text/event-stream"},
			200},
		{"anything with q=0", "Accept", []string{"*/*;q=0"}, 406},
		{"unterminated quote", "Accept", []string{`application/json, text/event-stream;p="\`}, 200},

		{"identity", "Content-Encoding", []string{"identity"}, 200},
		{"gzip", "Content-Encoding", []string{"gzip"}, 415},
		{"identity and gzip", "Content-Encoding", []string{"identity, gzip"}, 415},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := headers("server/discover", "")
			if h[tt.header] = tt.values; tt.values == nil {
				delete(h, tt.header)
			}
			got := do(t, ts, "POST", h, body("server/discover", ""))
			wantStatus(t, fmt.Sprintf("%s %q", tt.header, tt.values), got, tt.status)
			if tt.status != http.StatusOK && got.code() != -32600 {
				t.Errorf("got code %d, want -32600", got.code())
			}
		})
	}
}
