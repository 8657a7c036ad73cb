package natskv

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Cluster is what the leader of a bucket knows of the servers that keep it.
type Cluster struct {
	// Contacts are when the leader last heard from each server, by its name: at the latest,
	// by the clock of the caller, and zero if it has not or reports the server as offline.
	// Nil: there is only one server.
	Contacts map[string]time.Time
	// Age is how old the bucket is.
	Age time.Duration
	// Created is when it was created, by the clock of a server.
	Created time.Time
}

// Contact returns when the leader last heard from a server, and whether the server keeps the
// bucket.
func (c *Cluster) Contact(server string) (last time.Time, known bool) {
	if c.Contacts == nil {
		return time.Now(), true
	}
	last, known = c.Contacts[server]
	return last, known
}

// Cluster makes one attempt at asking the leader of the bucket about the servers that keep
// it. A leader that was deposed and does not know it has not heard from the others.
func (b *Bucket) Cluster(ctx context.Context) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, b.AttemptTimeout())
	defer cancel()
	asked := time.Now()
	info, err := b.stream.Info(ctx)
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Age: info.TimeStamp.Sub(info.Created), Created: info.Created}
	switch {
	case !isClustered(info):
		return c, nil
	case info.Cluster.Leader == "":
		return Cluster{}, errors.New("the bucket has no leader")
	}
	c.Contacts = map[string]time.Time{info.Cluster.Leader: asked}
	for _, p := range info.Cluster.Replicas {
		c.Contacts[p.Name] = lastContact(p, asked)
	}
	return c, nil
}

func lastContact(p *jetstream.PeerInfo, asked time.Time) time.Time {
	// A leader that was just elected reports 0 for a server that it has not heard from.
	if p.Offline || p.Active <= 0 {
		return time.Time{}
	}
	return asked.Add(-p.Active)
}

// isClustered reports whether the servers that keep a stream are a cluster.
func isClustered(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Cluster.Name != ""
}
