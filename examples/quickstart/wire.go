package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
)

// A wire is an HTTP transport. show prints traffic. tamper changes a byte of sent requestStates.
type wire struct{ show, tamper bool }

var state = regexp.MustCompile(`("requestState":")([^"]*)"`)

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if w.tamper {
		body = state.ReplaceAllFunc(body, flip)
	}
	w.print("->", body)
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	w.print("<- "+strconv.Itoa(resp.StatusCode), answer)
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, nil
}

func (w *wire) print(direction string, body []byte) {
	if w.show {
		fmt.Printf("%s %s\n", direction, shorten(body))
	}
}

func flip(member []byte) []byte {
	changed := bytes.Clone(member)
	at := len(changed) - len(changed)/3
	if changed[at] == 'A' {
		changed[at] = 'B'
	} else {
		changed[at] = 'A'
	}
	return changed
}

func shorten(body []byte) []byte {
	return state.ReplaceAllFunc(bytes.TrimSpace(body), func(member []byte) []byte {
		parts := state.FindSubmatch(member)
		return fmt.Appendf(nil, `%s%.12s… %d bytes"`, parts[1], parts[2], len(parts[2]))
	})
}
