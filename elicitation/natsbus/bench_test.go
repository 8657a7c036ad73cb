package natsbus_test

import (
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/rondo-mcp/rondo/internal/natstest"
)

// BenchmarkReply is a question put by one replica and answered through another:
// claim, look-up, message, answer and release.
func BenchmarkReply(b *testing.B) {
	b.Run("one server", func(b *testing.B) {
		one := natstest.Start(b, b.TempDir(), 0)
		benchmarkReply(b, []*natsserver.Server{one, one, one})
	})
	b.Run("three servers", func(b *testing.B) { benchmarkReply(b, natstest.StartCluster(b, 3)) })
}

func benchmarkReply(b *testing.B, servers []*natsserver.Server) {
	rs := threeReplicas(b, servers, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q, call, err := rs[i%3].try()
		if err != nil {
			b.Fatal(err)
		}
		rs[(i+1)%3].accepted(b, q, "now")
		call.End()
	}
}

// BenchmarkSend is what it takes to find an owner and get its answer.
func BenchmarkSend(b *testing.B) {
	for name, servers := range map[string]func() []*natsserver.Server{
		"one server": func() []*natsserver.Server {
			return []*natsserver.Server{natstest.Start(b, b.TempDir(), 0)}
		},
		"three servers": func() []*natsserver.Server { return natstest.StartCluster(b, 3) },
	} {
		b.Run(name, func(b *testing.B) {
			all := servers()
			owner := listening(b, natstest.Connect(b, all[0].ClientURL()), nil)
			sender := listening(b, natstest.Connect(b, all[len(all)-1].ClientURL()), nil)
			if err := owner.Claim(b.Context(), key, natstest.Patience); err != nil {
				b.Fatal(err)
			}
			message := make([]byte, 300)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sender.Send(b.Context(), key, message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
