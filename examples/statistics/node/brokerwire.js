"use strict";

// Sends librdkafka's statistics to brokerwire. send() never waits and never throws: while brokerwire
// is away or slow, documents are dropped.
//
//   const { sendStatistics } = require("./brokerwire");
//   const send = sendStatistics("/run/brokerwire/statistics.sock");
//   const producer = new Kafka.Producer({ "statistics.interval.ms": 5000, ... });
//   producer.on("event.stats", (event) => send(event.message));   // node-rdkafka and
//   consumer.on("event.stats", (event) => send(event.message));   // kafka-javascript's RdKafka API

const net = require("node:net");

// Beyond this much unsent, brokerwire does not keep up.
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

function sendStatistics(path) {
  let connection = null;

  function connect() {
    const made = net.connect(path);
    const forget = () => {
      made.destroy();
      if (connection === made) connection = null;
    };
    made.on("error", forget);
    made.on("close", forget);
    made.resume();
    made.unref(); // a connection must not keep the process alive
    return made;
  }

  return function send(document) {
    connection ??= connect();
    if (connection.writableLength > MAX_WAITING_BYTES) return;
    connection.write(document + "\n");
  };
}

module.exports = { sendStatistics };
