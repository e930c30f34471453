/**
 * Peer of the benchmark: an implementation of one afternoon, with Koa and its body parser, kafkajs, one message per event, and
 * acks of all replicas.
 */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import Router from '@koa/router';
import kafkajs from 'kafkajs';
import Koa from 'koa';
import bodyParser from 'koa-bodyparser';

interface Event {
  readonly sessionId: string;
  readonly eventType: string;
}

const ALL_IN_SYNC = -1;
const [brokers = '', topic = '', token = ''] = process.argv.slice(2);
const producer = new kafkajs.Kafka({ brokers: brokers.split(',') }).producer();
await producer.connect();

const router = new Router();
router.post('/v1/ingest/events', async (ctx) => {
  if (ctx.get('Authorization') !== `Bearer ${token}`) ctx.throw(401);
  const events = [ctx.request.body].flat() as Event[];
  if (!events.every(({ sessionId, eventType }) => sessionId && eventType)) ctx.throw(400);
  const receivedAt = new Date().toISOString();
  const accepted = events.map((event) => ({ id: randomUUID(), receivedAt, ...event }));
  await producer.send({
    topic,
    acks: ALL_IN_SYNC,
    messages: accepted.map((event) => ({ key: event.sessionId, value: JSON.stringify(event) })),
  });
  ctx.status = 201;
  ctx.body = accepted;
});

const app = new Koa().use(bodyParser()).use(router.routes());
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`);
});
