package cases

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers/rondo"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// ReplicasGroup is what it costs that the replica that gets a request of a session passes it
// on to the owner.
const ReplicasGroup = "replicas"

// The columns of the group: the client calls the owner, or the other replica.
const (
	direct    = "direct"
	forwarded = "forwarded"
)

// Replicas measures calls in a session, and streams that are open, over loopback. Client,
// owner and the other replica are one process, whose CPU and memory are all that it costs.
func Replicas() (list []measure.Case) {
	for i, column := range []string{direct, forwarded} {
		list = append(list,
			measure.Case{Group: ReplicasGroup, Row: "echo in a session", Peer: column,
				Run: func(d time.Duration) (measure.Sample, error) { return callReplica(i, d) }},
			measure.Case{Group: ReplicasGroup, Row: "open stream", Peer: column,
				Run: func(time.Duration) (measure.Sample, error) { return streamReplica(i) }})
	}
	return list
}

// openOwned opens a session at the first replica and returns the headers of its requests.
func openOwned(client *http.Client, r *rondo.Replicas) (http.Header, error) {
	header := http.Header{"Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	request, err := http.NewRequest("POST", r.URLs[0], strings.NewReader(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
			drive.LegacyVersion+`","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`))
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, err
	}
	header = header.Clone()
	header["Mcp-Session-Id"] = response.Header["Mcp-Session-Id"]
	header["Mcp-Protocol-Version"] = []string{drive.LegacyVersion}
	return header, nil
}

// callReplica makes calls through the replica with a number, one after the other.
func callReplica(number int, d time.Duration) (measure.Sample, error) {
	r, err := rondo.StartReplicas()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	header, err := openOwned(client, r)
	if err != nil {
		return nil, err
	}
	call := func() error {
		request, err := http.NewRequest("POST", r.URLs[number], strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+wire.Echo+
				`","arguments":{"message":"`+wire.Hello+`"}}}`))
		if err != nil {
			return err
		}
		request.Header = header
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || !bytes.Contains(body, []byte(wire.Hello)) {
			return fmt.Errorf("status %d, %w: %.300s", response.StatusCode, err, body)
		}
		return nil
	}
	for range 100 {
		if err := call(); err != nil {
			return nil, err
		}
	}
	var took []time.Duration
	cpu := drive.CPU()
	for began := time.Now(); time.Since(began) < d; {
		sent := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(sent))
	}
	cpu = drive.CPU() - cpu
	slices.Sort(took)
	return measure.Sample{
		measure.CPU: float64(cpu) / float64(len(took)),
		measure.P50: float64(took[len(took)/2]), measure.P99: float64(took[len(took)*99/100]),
	}, nil
}

// streamReplica opens GET streams through the replica with a number, each over a connection
// of its own that the client keeps no buffers for.
func streamReplica(number int) (measure.Sample, error) {
	r, err := rondo.StartReplicas()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	at, err := url.Parse(r.URLs[number])
	if err != nil {
		return nil, err
	}
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	return kept(sessions, func() error {
		header, err := openOwned(client, r)
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		request := fmt.Appendf(nil, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n"+
			"Mcp-Session-Id: %s\r\nMcp-Protocol-Version: %s\r\n\r\n", at.Host,
			header.Get("Mcp-Session-Id"), drive.LegacyVersion)
		if _, err := conn.Write(request); err != nil {
			return err
		}
		status, err := bufio.NewReaderSize(conn, 64).ReadString('\n')
		if err != nil || !strings.HasPrefix(status, "HTTP/1.1 200") {
			return fmt.Errorf("GET: %w: %s", err, status)
		}
		return nil
	})
}
