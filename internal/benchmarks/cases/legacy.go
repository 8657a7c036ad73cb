package cases

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
)

// The rows of [Legacy].
const (
	SessionEchoRow = "echo in a session"
	PushRow        = "push and answer"
	PushInPlaceRow = "push and answer, in place"
)

// Legacy is a question in a session of an older revision: a call, the request
// that the server pushes, its answer, the result. The SDKs ask in place only.
func Legacy() (ops []measure.Op) {
	for _, row := range []struct {
		name string
		of   func(peers.Server) func() http.Handler
		do   func(*drive.Session) error
	}{
		{SessionEchoRow, func(s peers.Server) func() http.Handler { return s.Legacy },
			(*drive.Session).Echo},
		{PushRow, func(s peers.Server) func() http.Handler { return s.Legacy },
			(*drive.Session).Push},
		{PushInPlaceRow, func(s peers.Server) func() http.Handler { return s.InPlace },
			(*drive.Session).Push},
	} {
		for _, s := range peers.Servers() {
			serve := row.of(s)
			if serve == nil {
				continue
			}
			ops = append(ops, measure.Op{Group: LegacyGroup, Row: row.name, Peer: s.Name,
				Start: func() (func() error, func(), error) {
					session, err := drive.NewHandler(serve()).Open()
					if err != nil {
						return nil, nil, err
					}
					return func() error { return row.do(session) }, session.Close, nil
				}})
		}
	}
	return ops
}

// sessions is how many sessions share what a server has anyway.
const sessions = 300

// Sessions is what an idle session of an older revision takes: one that was
// opened and used, and what it takes more when its client listens for what the
// server might say by itself (GET). Of that, what net/http takes for a
// connection whose handler waits is left out.
func Sessions() (list []measure.Case) {
	for _, row := range []struct {
		name string
		run  func(http.Handler) (measure.Sample, error)
	}{{"idle session", idle}, {"idle session that listens", listening}} {
		for _, s := range peers.Servers() {
			if s.Legacy != nil {
				list = append(list, measure.Case{Group: SessionsGroup, Row: row.name, Peer: s.Name,
					Run: func(time.Duration) (measure.Sample,
						error) {
						return row.run(s.Legacy())
					}})
			}
		}
	}
	return list
}

func open(d *drive.Handler) (*drive.Session, error) {
	session, err := d.Open()
	if err != nil {
		return nil, err
	}
	return session, session.Echo()
}

func idle(h http.Handler) (measure.Sample, error) {
	d := drive.NewHandler(h)
	return kept(sessions, func() error {
		_, err := open(d)
		return err
	})
}

func listening(h http.Handler) (measure.Sample, error) {
	wait := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	alone, err := listeners(wait, func() (http.Header, error) { return http.Header{}, nil })
	if err != nil {
		return nil, err
	}
	d := drive.NewHandler(h)
	with, err := listeners(h, func() (http.Header, error) {
		session, err := open(d)
		if err != nil {
			return nil, err
		}
		return session.Header(), nil
	})
	return measure.Sample{measure.Memory: with[measure.Memory] - alone[measure.Memory]}, err
}

// listeners is the memory of streams that clients have open, each over a
// connection of its own.
func listeners(h http.Handler, header func() (http.Header, error)) (measure.Sample, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = srv.Serve(listener) }()
	defer srv.Close()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	var buf [4 << 10]byte
	return kept(sessions, func() error {
		header, err := header()
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		request := fmt.Appendf(nil, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n", listener.Addr())
		header.Del("Accept")
		header.Del("Content-Type")
		for name, values := range header {
			request = fmt.Appendf(request, "%s: %s\r\n", name, values[0])
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write(append(request, "\r\n"...)); err != nil {
			return err
		}
		// The headers are there when the handler has got as far as waiting.
		n, err := conn.Read(buf[:])
		if err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200")) {
			return fmt.Errorf("GET: %w: %.300s", err, buf[:n])
		}
		return nil
	})
}
