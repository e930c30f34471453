/** A small game. It sends a session, events, and bug reports with a screenshot to Questlog. */
import { start } from '@questlog/client';
import { noteAutomatically } from '@questlog/client/automatic';
import { indexedDbQueue } from '@questlog/client/indexeddb';

const canvas = document.querySelector('canvas');
const status = document.querySelector('[role=status]');
const pen = canvas.getContext('2d');
const { width, height } = canvas;

const { url, token, adminUrl } = await (await fetch('/settings.json')).json();
const telemetry = await start({
  url,
  token,
  build: { version: '1.0.0', platform: 'Web', channel: 'dev' },
  player: { externalId: playerId() },
  metadata: { gameName: 'Falling stars' },
  queue: indexedDbQueue(),
  onProblem: ({ kind, message, events }) => {
    status.textContent = `Questlog: ${kind}: ${message ?? `${events} events`}`;
  },
});
noteAutomatically(telemetry);

const STARS_A_LEVEL = 8;
const pressed = new Set();
/** X position of the pointer on the canvas. Undefined if no pointer is pressed. */
let finger;
let round = newRound();
let lastMs = performance.now();
requestAnimationFrame(frame);
status.textContent = 'Catch the stars, evade the rocks: arrows or a finger; the space bar dashes.';

function newRound() {
  return { isOn: false, x: width / 2, dash: 0, lives: 3, stars: 0, level: 1, things: [], next: 0 };
}

function begin() {
  round = { ...newRound(), isOn: true };
  telemetry.event('checkpoint', { level: 1, reached: 'begin' });
}

function frame(nowMs) {
  const seconds = Math.min((nowMs - lastMs) / 1000, 0.1);
  lastMs = nowMs;
  if (round.isOn) step(seconds);
  draw();
  requestAnimationFrame(frame);
}

function step(seconds) {
  const towards =
    finger === undefined ? 0 : Math.sign(finger - round.x) * Number(Math.abs(finger - round.x) > 4);
  const direction = Number(pressed.has('ArrowRight')) - Number(pressed.has('ArrowLeft')) || towards;
  round.dash = Math.max(0, round.dash - seconds);
  round.x += direction * seconds * (round.dash > 0 ? 900 : 360);
  round.x = Math.min(width - 20, Math.max(20, round.x));
  round.next -= seconds;
  if (round.next <= 0) {
    round.next = 0.7 / round.level;
    const isStar = Math.random() < 0.6;
    round.things.push({
      isStar,
      x: 20 + Math.random() * (width - 40),
      y: -20,
      speed: 120 + 40 * round.level,
    });
  }
  for (const thing of round.things) thing.y += thing.speed * seconds;
  const isMet = ({ x, y }) => Math.abs(x - round.x) < 28 && Math.abs(y - (height - 40)) < 28;
  for (const thing of round.things.filter(isMet)) meet(thing);
  round.things = round.things.filter((thing) => !isMet(thing) && thing.y < height + 20);
}

function meet({ isStar, x }) {
  if (!isStar) {
    round.lives -= 1;
    telemetry.event('state_change', { lives: round.lives, level: round.level, x: Math.round(x) });
    if (round.lives > 0) return;
    round.isOn = false;
    telemetry.event('checkpoint', { level: round.level, reached: 'end', stars: round.stars });
    return;
  }
  round.stars += 1;
  if (round.stars % STARS_A_LEVEL > 0) return;
  round.level += 1;
  telemetry.event('checkpoint', { level: round.level, reached: 'level', stars: round.stars });
}

function draw() {
  pen.clearRect(0, 0, width, height);
  for (const { isStar, x, y } of round.things) disc(x, y, isStar ? 8 : 16, isStar ? '#ffd75e' : '#8d93a8');
  pen.fillStyle = round.dash > 0 ? '#7effc5' : '#5aa9ff';
  pen.beginPath();
  pen.moveTo(round.x, height - 64);
  pen.lineTo(round.x + 20, height - 20);
  pen.lineTo(round.x - 20, height - 20);
  pen.fill();
  pen.fillStyle = '#e8ecf8';
  pen.font = '18px system-ui, sans-serif';
  pen.fillText(`level ${round.level}   stars ${round.stars}   lives ${round.lives}`, 12, 26);
  if (!round.isOn) pen.fillText('Press a key or tap to begin', 130, height / 2);
}

function disc(x, y, radius, color) {
  pen.fillStyle = color;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

addEventListener('keydown', (event) => {
  if (event.key === 'F8') {
    event.preventDefault();
    return void report();
  }
  if (!['ArrowLeft', 'ArrowRight', ' '].includes(event.key)) return;
  event.preventDefault();
  if (event.repeat) return;
  pressed.add(event.key);
  if (!round.isOn) return begin();
  if (event.key === ' ') dash();
});
addEventListener('keyup', ({ key }) => pressed.delete(key));
canvas.addEventListener('pointerdown', (event) => {
  follow(event);
  if (!round.isOn) begin();
});
canvas.addEventListener('pointermove', (event) => event.buttons > 0 && follow(event));
addEventListener('pointerup', () => {
  finger = undefined;
});
document.querySelector('button').addEventListener('click', (event) => {
  // Removes the focus from the button, so that the space bar controls the game.
  event.currentTarget.blur();
  void report();
});

function follow({ clientX }) {
  const { left, width: shown } = canvas.getBoundingClientRect();
  finger = ((clientX - left) / shown) * width;
}

function dash() {
  round.dash = 0.25;
  telemetry.event('player_action', { action: 'dash', x: Math.round(round.x) });
}

/** Files a bug report with a screenshot. Questlog links the report to the events around the time of the report. */
async function report() {
  const { level, lives, stars, x } = round;
  status.textContent = 'Sending the report …';
  const picture = await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
  // Files the report without the screenshot if the upload fails.
  const file = await telemetry
    .upload(picture, { attachmentType: 'screenshot', fileName: 'screenshot.png' })
    .catch(() => undefined);
  const filed = telemetry.report({
    title: `Something is wrong in level ${level}`,
    severity: 'medium',
    reporterType: 'player',
    context: { sceneName: `level ${level}`, playerPosition: { x, y: height - 40 }, extra: { lives, stars } },
    attachments: file === undefined ? [] : [file],
  });
  const id = await filed.catch(({ message }) => {
    status.textContent = `The report is not filed: ${message}`;
  });
  if (id === undefined) return;
  const link = document.createElement('a');
  link.href = `${adminUrl}/#/report/${id}`;
  link.textContent = 'see its trail in the console';
  status.replaceChildren('The report is filed: ', link);
}

/** Returns an id that stays the same in this browser. */
function playerId() {
  localStorage.playerId ??= `player-${crypto.randomUUID()}`;
  return localStorage.playerId;
}
