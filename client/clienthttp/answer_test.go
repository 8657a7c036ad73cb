package clienthttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// unsteady fails as a test says when an answer is posted.
type unsteady struct {
	http.RoundTripper
	fail func(attempt int) (status int, err error) // neither: it goes through
	when []time.Time
}

func (u *unsteady) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"result"`) {
			u.when = append(u.when, time.Now())
			status, err := u.fail(len(u.when))
			if err != nil {
				return nil, err
			}
			if status != 0 {
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}
		}
	}
	return u.RoundTripper.RoundTrip(r)
}

// TestAnswerAgain: what a person has answered is not lost with a connection, and
// not forced on a server that refuses it.
func TestAnswerAgain(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		fail func(attempt int) (int, error)
		want int // attempts
	}{
		{"taken", func(int) (int, error) { return 0, nil }, 1},
		{"broken twice", func(n int) (int, error) {
			if n <= 2 {
				return 0, broken
			}
			return 0, nil
		}, 3},
		{"busy once", func(n int) (int, error) { return []int{503, 0}[n-1], nil }, 2},
		{"refused", func(int) (int, error) { return 400, nil }, 1},
		{"broken for good", func(int) (int, error) { return 0, broken }, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				s := &oldServer{id: "s", call: func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", stream)
					_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":"a","method":"roots/list"}`+"\n\n")
					<-over
					_, _ = io.WriteString(w, "data: "+result+"\n\n")
				}}
				u := &unsteady{RoundTripper: inProcess{s}, fail: tc.fail}
				x, tr := s.openOver(t, u, &asked{})
				time.AfterFunc(time.Minute, func() { close(over) })
				if _, err := x.Handle(t.Context(), request(), nil); err != nil {
					t.Error(err)
				}
				if len(u.when) != tc.want {
					t.Errorf("%d attempts, want %d", len(u.when), tc.want)
				}
				_ = x.Close()
				_ = tr.Close()
			})
		})
	}
}
