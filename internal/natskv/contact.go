package natskv

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Contact is what the leader of a bucket knows of one server of its cluster.
type Contact struct {
	// Known is set if the server keeps the bucket, or is the only server there is.
	Known bool
	// Last is when the leader last heard from the server, by the clock of the caller and
	// at the latest; zero if it has not, or reports the server as offline.
	Last time.Time
	// Age is how old the bucket is.
	Age time.Duration
}

// Contact makes one attempt at asking the leader of the bucket when it last heard from a
// server. A leader that was deposed and does not know it has not heard from the others.
func (b *Bucket) Contact(ctx context.Context, server string) (Contact, error) {
	ctx, cancel := context.WithTimeout(ctx, b.AttemptTimeout())
	defer cancel()
	asked := time.Now()
	info, err := b.stream.Info(ctx)
	if err != nil {
		return Contact{}, err
	}
	c := Contact{Age: info.TimeStamp.Sub(info.Created)}
	cluster := info.Cluster
	switch {
	case cluster == nil || cluster.Name == "" || cluster.Leader == server:
		c.Known, c.Last = true, asked
	default:
		c.Known, c.Last = lastContact(cluster.Replicas, server, asked)
	}
	return c, nil
}

func lastContact(
	peers []*jetstream.PeerInfo, server string, asked time.Time,
) (known bool, last time.Time) {
	for _, p := range peers {
		if p.Name != server {
			continue
		}
		if p.Offline {
			return true, time.Time{}
		}
		return true, asked.Add(-p.Active)
	}
	return false, time.Time{}
}
