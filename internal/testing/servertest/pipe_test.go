package servertest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// In fake time a response that takes an hour comes at once.
func TestHandlersRunInFakeTime(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, http.Handler) (string, *http.Client){
		"Serve": func(t *testing.T, h http.Handler) (string, *http.Client) {
			return servertest.PipeURL, servertest.ServePipe(t, h).Client()
		},
		"Start": func(t *testing.T, h http.Handler) (string, *http.Client) {
			ts := servertest.StartPipe(t, h)
			return ts.URL, ts.Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(time.Hour)
					_, _ = io.WriteString(w, "done")
				}
				url, client := serve(t, http.HandlerFunc(slow))
				began := time.Now()
				response, err := client.Get(url)
				noError(t, err)
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				took := time.Since(began)
				if string(text) != "done" || err != nil || took != time.Hour {
					t.Errorf("got %q, %v after %v", text, err, took)
				}
			})
		})
	}
}

// A closed server is not reached by a new connection nor by an open one.
func TestNobodyReachesAClosedServer(t *testing.T) {
	s := servertest.ServePipe(t, http.NotFoundHandler())
	open := s.Dial()
	if _, err := io.WriteString(open, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	rest := bufio.NewReader(open)
	if response, err := http.ReadResponse(rest, nil); err != nil || response.StatusCode != 404 {
		t.Fatalf("got %+v, %v", response, err)
	} else if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if _, err := s.DialContext(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a new connection: got %v", err)
	}
	if _, err := rest.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("an open connection: got %v", err)
	}
}
