package oauthtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// A Reply is what an endpoint answers instead of its own answer. The request is recorded as ever.
type Reply struct {
	Status int         // zero: 200
	Header http.Header // beside the type of the content
	Type   string      // of the content; empty: application/json
	Body   string

	Times int           // how often, then the endpoint behaves again; zero: for ever
	Delay time.Duration // before the answer, unless the client goes away
	Hang  bool          // no answer until the client goes away
	Lose  bool          // do the work, then close the connection without an answer
}

// HTML is a page where JSON is expected, with a status of success.
func HTML() Reply {
	return Reply{Type: "text/html", Body: "<!DOCTYPE html><title>Sign in</title><p>Welcome."}
}

// Status is an answer without a body.
func Status(status int) Reply { return Reply{Status: status, Type: "text/plain"} }

// Error is an error answer of the token endpoint. The description has markup and a control
// character in it, as hostile ones do.
func Error(status int, code string) Reply {
	text, _ := json.Marshal(map[string]string{"error": code,
		"error_description": "\x1b[31m<b>" + code + "</b>"}) // strings can be encoded
	return Reply{Status: status, Body: string(text)}
}

// RedirectTo is a redirect to another address.
func RedirectTo(location string) Reply {
	return Reply{Status: http.StatusFound, Header: http.Header{"Location": {location}}}
}

// Oversize is an answer of size bytes that is valid JSON.
func Oversize(size int) Reply {
	return Reply{Body: `{"padding":"` + strings.Repeat("x", size) + `"}`}
}

// Slow is an error that takes its time.
func Slow(delay time.Duration) Reply {
	return Reply{Status: http.StatusServiceUnavailable, Delay: delay}
}

// Hang is no answer at all, as long as the client waits.
func Hang() Reply { return Reply{Hang: true} }

// Lost is work that is done and an answer that does not arrive, once.
func Lost() Reply { return Reply{Lose: true, Times: 1} }

// Once returns the reply for the next request only.
func (reply Reply) Once() Reply {
	reply.Times = 1
	return reply
}

func (reply Reply) send(w http.ResponseWriter, r *http.Request) {
	if reply.Hang {
		<-r.Context().Done()
		return
	}
	if reply.Lose {
		panic(http.ErrAbortHandler) // net/http closes the connection and logs nothing
	}
	if reply.Delay > 0 {
		timer := time.NewTimer(reply.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	if reply.Type == "" {
		reply.Type = "application/json"
	}
	w.Header().Set("Content-Type", reply.Type)
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	_, _ = w.Write([]byte(reply.Body)) // the client may be gone
}
