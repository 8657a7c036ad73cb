package sqlstore

import (
	"database/sql"
	"errors"
	"strings"
)

// A Dialect is what a database speaks. The zero value is [PostgreSQL].
type Dialect int

const (
	// PostgreSQL is version 11 or newer, with any driver whose placeholders are $1, such as
	// pgx and pq.
	PostgreSQL Dialect = iota
	// SQLite is version 3.35 or newer, with any driver, for one machine. Have the driver wait
	// for locks (busy_timeout), and use the journal mode WAL.
	SQLite
)

// words replaces what differs between the dialects.
func (d Dialect) words() *strings.Replacer {
	if d == PostgreSQL {
		return strings.NewReplacer(
			"{now}", "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
			"{max}", "greatest", "{bytes}", "bytea", "{skip locked}", "for update skip locked",
			"{lock}", "for update")
	}
	return strings.NewReplacer(
		"{now}", "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
		"{max}", "max", "{bytes}", "blob", "{skip locked}", "",
		"{lock}", "")
}

// write returns a statement in the words of the dialect. Its parameters are $1, $2 and so on,
// each once and in this order, because some drivers for SQLite know only a plain question mark.
func (d Dialect) write(statement string) string {
	if d == PostgreSQL {
		return d.words().Replace(statement)
	}
	var b strings.Builder
	for i, part := range strings.Split(statement, "$") {
		if i > 0 {
			b.WriteByte('?')
			part = strings.TrimLeft(part, "0123456789")
		}
		b.WriteString(part)
	}
	return d.words().Replace(b.String())
}

// isolation is what transactions ask for. In PostgreSQL a statement must see what others have
// committed since the transaction began; SQLite runs one writer after the other.
func (d Dialect) isolation() *sql.TxOptions {
	if d == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// isFinal reports whether the database has refused a statement for a reason that repeating it at
// once will not change. It knows the errors of drivers by their methods; any other error counts
// as one of the connection, which may be another next time.
func (d Dialect) isFinal(err error) bool {
	if errors.Is(err, errSchema) || errors.Is(err, errDataType) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return !isTransientState(e.SQLState())
	}
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		const busy, locked = 5, 6
		code := e.Code() & 0xff
		return code != busy && code != locked
	}
	return false
}

// isTransientState reports whether an error code of PostgreSQL names a reason that passes: a
// conflict with another transaction, or a server that starts, ends or has no connection left.
func isTransientState(code string) bool {
	for _, prefix := range []string{"08", "40", "53300", "57P0", "55P03"} {
		if strings.HasPrefix(code, prefix) {
			return true
		}
	}
	return false
}
