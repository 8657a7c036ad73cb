package natsbus

import "context"

// What tests of the frames need to see.

// MaxPartials is how many messages in parts may be incomplete.
const MaxPartials = maxPartials

// EncodeRequest returns a frame.
func EncodeRequest(part, parts uint16, revision uint64, key string, chunk []byte) []byte {
	r := request{span{part, parts}, revision, key, chunk}
	return r.appendFrame(nil)
}

// EncodeResponse returns a frame.
func EncodeResponse(s byte, part, parts uint16, chunk []byte) []byte {
	r := response{span{part, parts}, status(s), chunk}
	return r.appendFrame(nil)
}

// RecodeRequest decodes a frame and encodes it again.
func RecodeRequest(b []byte) ([]byte, error) {
	r, err := decodeRequest(b)
	if err != nil {
		return nil, err
	}
	return r.appendFrame(nil), nil
}

// RecodeResponse decodes a frame and encodes it again.
func RecodeResponse(b []byte) ([]byte, error) {
	r, err := decodeResponse(b)
	if err != nil {
		return nil, err
	}
	return r.appendFrame(nil), nil
}

// MaxParts is into how many parts a message is divided at most.
const MaxParts = maxParts

// Assemble puts a message together from parts of size bytes.
func Assemble(message []byte, size int) ([]byte, error) {
	parts := max(1, (len(message)+size-1)/size)
	var a assembly
	for i := range parts {
		chunk := message[i*size : min((i+1)*size, len(message))]
		done, err := a.addPart(span{uint16(i), uint16(parts)}, chunk)
		if err != nil {
			return nil, err
		}
		if last := i == parts-1; done != last {
			return nil, errFrame
		}
	}
	return a.data, nil
}

// NamesItsServer reports whether the directory has the name of the server that b is connected to.
func (b *Bus) NamesItsServer(ctx context.Context) bool {
	home, err := b.bucket.Get(ctx, homeKey(b.id))
	return err == nil && !home.Gone && string(home.Value) == b.nc.ConnectedServerName()
}

// DoubtTime is how long a server that could not be reached is not trusted.
const DoubtTime = doubtTime

// TheDirectory stands for all servers in Doubts.
const TheDirectory = theDirectory

// Doubts are when servers could last not be reached.
type Doubts struct{ d doubts }

// Add says that a server cannot be reached.
func (d *Doubts) Add(server string) { d.d.add(server) }

// IsRecent reports whether a server could not be reached lately.
func (d *Doubts) IsRecent(server string) bool { return d.d.isRecent(server) }
