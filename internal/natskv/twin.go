package natskv

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/sleep"
)

// ErrTwin is returned by [Open] when a single server keeps two streams of the name of the
// bucket. Both take every write, perhaps in another order, so that of two conditional writes
// to one key each may succeed. The interface of JetStream shows one of the two and cannot
// remove the other.
var ErrTwin = errors.New("the server keeps two streams of this name, which were created at the " +
	"same moment: remove the bucket, restart the server, and create the bucket before replicas " +
	"start")

const (
	// settleTime is how old a bucket of a single server must be before it is used. A request
	// to create it that another replica has sent since may still be under way until then.
	settleTime = 300 * time.Millisecond
	// twinTime is how long to wait for the answer of a second stream after that of the first
	// one. Both get a message at the same moment.
	twinTime = 100 * time.Millisecond
)

// awaitSettled waits until the bucket of a single server is old enough, and then looks it up
// again. If it is another one by then, it waits for that one, too.
func (b *Bucket) awaitSettled(ctx context.Context, name string) (err error) {
	for {
		info := b.stream.CachedInfo()
		age := max(info.TimeStamp.Sub(info.Created), 0) // the clock may have been set back
		if isClustered(info) || age >= settleTime {
			return nil
		}
		if err := sleep.For(ctx, settleTime-age); err != nil {
			return err
		}
		b.stream, err = b.js.Stream(ctx, name)
		if err != nil || b.stream.CachedInfo().Created.Equal(info.Created) {
			return err
		}
	}
}

// checkTwin makes one attempt at counting the streams that answer a write. They refuse the
// write, because it expects another stream, so that nothing is stored. A full bucket answers,
// too.
func (b *Bucket) checkTwin(ctx context.Context) error {
	nc := b.js.Conn()
	answers, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails when the connection is closed
	m := &nats.Msg{
		Subject: b.publishSubject + "twin", Reply: answers.Subject, Header: nats.Header{},
	}
	m.Header.Set(jetstream.ExpectedStreamHeader, "not "+b.config.Name)
	if err := nc.PublishMsg(m); err != nil {
		return err
	}
	if err := awaitAnswer(ctx, answers, b.AttemptTimeout()); err != nil {
		return err
	}
	switch err := awaitAnswer(ctx, answers, twinTime); {
	case err == nil:
		return ErrTwin
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil
	default:
		return err
	}
}

// awaitAnswer waits for one answer of a stream.
func awaitAnswer(ctx context.Context, answers *nats.Subscription, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := answers.NextMsgWithContext(ctx) // says, too, that nobody takes the write
	return err
}
