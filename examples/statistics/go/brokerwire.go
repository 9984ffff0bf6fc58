// Package brokerwire sends librdkafka's statistics to brokerwire; one file, to be copied.
//
//	sender := brokerwire.NewSender("/run/brokerwire/statistics.sock")
//	producer, err := kafka.NewProducer(&kafka.ConfigMap{"statistics.interval.ms": 5000, ...})
//	for event := range producer.Events() {
//		if statistics, ok := event.(*kafka.Stats); ok {
//			sender.Send(statistics.String())
//		}
//	}
//
// A consumer's statistics come out of Poll as *kafka.Stats too; ReadMessage drops them.
package brokerwire

import (
	"net"
	"time"
)

// Sender sends documents from a goroutine of its own. Send never waits and never fails: while
// brokerwire is away or slow, documents are dropped.
type Sender struct {
	documents chan string
}

const timeout = time.Second

// NewSender returns a sender to a Unix socket such as /run/brokerwire/statistics.sock.
func NewSender(path string) *Sender {
	sender := &Sender{documents: make(chan string, 16)}
	go sender.run(path)
	return sender
}

// Send takes the text of a *kafka.Stats event.
func (s *Sender) Send(document string) {
	select {
	case s.documents <- document:
	default: // full: the next document says the same, and newer
	}
}

// Close ends the goroutine; Send must not be called after it.
func (s *Sender) Close() {
	close(s.documents)
}

func (s *Sender) run(path string) {
	var connection net.Conn
	for document := range s.documents {
		if connection == nil {
			var err error
			if connection, err = net.DialTimeout("unix", path, timeout); err != nil {
				connection = nil
				continue
			}
		}
		_ = connection.SetWriteDeadline(time.Now().Add(timeout))
		if _, err := connection.Write([]byte(document + "\n")); err != nil {
			// Half a document ends with its connection.
			connection.Close()
			connection = nil
		}
	}
	if connection != nil {
		connection.Close()
	}
}
