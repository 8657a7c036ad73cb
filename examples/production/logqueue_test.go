package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// If nobody reads the log, requests go on: the pipe is full, and lines are dropped and counted.
func TestRequestsGoOnWhileNobodyReadsTheLog(t *testing.T) {
	reader, writer := io.Pipe()
	q := newLogQueue(writer, 2)
	for range 10 { // one line is being written, two are queued
		if n, err := q.Write([]byte("a line\n")); n != 7 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if lost := testutil.ToFloat64(q.metric()); lost < 7 || lost > 8 {
		t.Errorf("%v lines were lost, want 7 or 8", lost)
	}
	reader.Close()
	q.end(t.Context())
}

func TestTheQueueWritesTheLinesInOrderAndToTheEnd(t *testing.T) {
	var got bytes.Buffer
	q := newLogQueue(&got, 10)
	line := make([]byte, 2)
	for i := range 10 {
		copy(line, []byte{'0' + byte(i), '\n'}) // acts like a logger, which reuses its buffer
		_, _ = q.Write(line)
	}
	q.end(t.Context())
	if want := "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	q := newLogQueue(failingWriter{}, 10)
	_, _ = q.Write([]byte("a line\n"))
	q.end(t.Context())
	if lost := testutil.ToFloat64(q.metric()); lost != 1 {
		t.Errorf("%v lines were lost, want 1", lost)
	}
}

func TestTheEndDoesNotWaitForALogThatNobodyReads(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	q := newLogQueue(writer, 4)
	for range 4 {
		_, _ = q.Write(make([]byte, 64<<10)) // a pipe holds one such line
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	q.end(over)
	if n := len(q.lines); n < 2 {
		t.Errorf("%d lines are queued, want 2 at least: the pipe has no room for them", n)
	}
	reader.Close()
	<-q.ended
	writer.Close()
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }
