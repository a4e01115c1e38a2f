"""The rules of the generator in Python, each with a fake daemon that gives the answers of a list."""

import copy
import math
import os
import pickle
import threading
import unittest

import leased_snowflake
from leased_snowflake import Refused, SnowflakeGenerator

LAYOUT = {"epoch": "0", "unit": "1000000", "time_bits": 41, "worker_bits": 10, "sequence_bits": 1,
          "time_shift": 11, "worker_shift": 1, "sequence_shift": 0}
GRANTED = object()  # an extension, as it was asked for


def lease(start, end, worker=3, **other):
    return {"pool": "web", "worker": worker, "generation": "7", "from": str(start), "to": str(end), "nonce": "n",
            "now": "1000", "latest": "20000000000", "layout": LAYOUT, **other}


def refused(code, may_have_been_applied=False):
    return Refused({"detail": code, "code": code, "may_have_been_applied": may_have_been_applied})


class Daemon:
    """A daemon that gives these answers, and a clock, in milliseconds."""

    def __init__(self, *answers, now=1000):
        self.answers, self.asked, self.now, self.latest = list(answers), [], now, None

    def generator(self, window_ms=3_600_000):
        """By default with a window so long that the thread never renews within a test."""
        return SnowflakeGenerator("http://daemon", "web", window_ms=window_ms, clock=lambda: self.now * 1_000_000,
                                  send=self.send)

    def send(self, method, path, body):
        self.asked.append((method, path, body))
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, Exception):
            raise answer
        if answer is GRANTED:
            answer = {**self.latest, "to": str(body["new_to"]), "nonce": body["new_nonce"]}
        elif answer is not None:
            answer = {"token": body["token"], **answer}
        self.latest = answer
        return answer


def parts(number):
    return number >> 11, number >> 1 & 1023, number & 1


class Generator(unittest.TestCase):
    def test_an_id_has_its_time_worker_and_sequence_and_carries(self):
        daemon = Daemon(lease(1000, 5000))
        web = daemon.generator()
        self.assertEqual([parts(web.next()) for _ in range(3)], [(1000, 3, 0), (1000, 3, 1), (1001, 3, 0)])

    def test_it_begins_where_the_lease_does_and_not_at_its_clock(self):
        self.assertEqual(parts(Daemon(lease(1200, 5000)).generator().next())[0], 1200)

    def test_the_ids_own_time_is_below_the_end_after_the_carry_whatever_the_clock_shows(self):
        daemon = Daemon(lease(1000, 1001), GRANTED)
        web = daemon.generator()
        self.assertEqual([parts(web.next())[0] for _ in range(2)], [1000, 1000])
        self.assertEqual(len(daemon.asked), 1)
        self.assertEqual(parts(web.next())[0], 1001)  # the clock is still at 1000
        self.assertEqual(len(daemon.asked), 2)

    def test_it_sends_what_the_latest_answer_had(self):
        daemon = Daemon(lease(1000, 1001), GRANTED, GRANTED)
        web = daemon.generator()
        for _ in range(3):
            web.next()
        daemon.now = 9_000_000
        web.next()
        first, second = daemon.asked[1][2], daemon.asked[2][2]
        self.assertEqual((first["token"], first["generation"], first["from"], first["to"], first["nonce"]),
                         (daemon.asked[0][2]["token"], "7", "1000", "1001", "n"))
        self.assertEqual((second["to"], second["nonce"]), (str(first["new_to"]), first["new_nonce"]))
        self.assertNotEqual(first["new_nonce"], second["new_nonce"])

    def test_an_unknown_outcome_moves_nothing_and_is_sent_again_as_it_was(self):
        for lost in (OSError("lost"), refused("UNKNOWN", True)):
            daemon = Daemon(lease(1000, 1001), lost, lost, GRANTED,
                            GRANTED)
            web = daemon.generator()
            web.next(), web.next()
            for _ in range(2):
                with self.assertRaises(type(lost)):
                    web.next()
            daemon.now = 9_000_000  # another end would be wanted by now
            self.assertEqual(parts(web.next())[0], 9_000_000)
            sent = [body for _, _, body in daemon.asked[1:4]]
            self.assertEqual(len({(body["new_to"], body["new_nonce"]) for body in sent}), 1)
            self.assertNotEqual(daemon.asked[4][2]["new_nonce"], sent[0]["new_nonce"])
            self.assertEqual(daemon.asked[4][2]["to"], str(sent[0]["new_to"]))

    def test_a_refusal_that_did_nothing_is_no_pending_extension(self):
        daemon = Daemon(lease(1000, 1001), refused("UNAVAILABLE"), GRANTED)
        web = daemon.generator()
        web.next(), web.next()
        with self.assertRaises(Refused):
            web.next()
        web.next()
        self.assertNotEqual(daemon.asked[1][2]["new_nonce"], daemon.asked[2][2]["new_nonce"])

    def test_a_lease_without_an_answer_is_asked_for_again_by_its_token(self):
        daemon = Daemon(lease(1000, 1001), refused("FAILED_PRECONDITION"), OSError("lost"), lease(1001, 5000, worker=4))
        web = daemon.generator()
        web.next(), web.next()
        with self.assertRaises(OSError):
            web.next()
        self.assertEqual(parts(web.next())[:2], (1001, 4))
        first, second = daemon.asked[2][2], daemon.asked[3][2]
        self.assertEqual((first["repeated"], second["repeated"]), (False, True))
        self.assertEqual(first["token"], second["token"])
        self.assertNotEqual(first["token"], daemon.asked[0][2]["token"])

    def test_what_is_left_of_a_lost_lease_is_used_and_then_another_one(self):
        daemon = Daemon(lease(1000, 1003), refused("FAILED_PRECONDITION"), lease(1003, 5000, worker=9))
        web = daemon.generator()
        web.next()
        web._ask(None)  # as the thread does
        self.assertEqual([parts(web.next())[1] for _ in range(6)], [3, 3, 3, 3, 3, 9])
        self.assertEqual(len(daemon.asked), 3)

    def test_after_another_lease_it_goes_on_above_its_own_last_time(self):
        daemon = Daemon(lease(1000, 2000), refused("FAILED_PRECONDITION"), lease(500, 5000, worker=9), now=1999)
        web = daemon.generator()
        web.next(), web.next()
        daemon.now = 900
        self.assertEqual(parts(web.next()), (2000, 9, 0))

    def test_a_clock_that_goes_back_repeats_nothing(self):
        daemon = Daemon(lease(1000, 50_000), now=2000)
        web = daemon.generator()
        first = web.next()
        daemon.now = 1500
        self.assertGreater(web.next(), first)

    def test_it_stops_if_the_store_went_back(self):
        daemon = Daemon(lease(1000, 5000), refused("DATA_LOSS"))
        web = daemon.generator()
        web.next()
        with self.assertRaises(Refused):
            web._ask(None)
        with self.assertRaises(Refused):
            web.next()  # although it is below the end
        self.assertEqual(len(daemon.asked), 2)

    def test_a_child_of_fork_has_no_lease(self):
        web = Daemon(lease(1000, 5000)).generator()
        web._minting.acquire()  # as another thread of the parent may have
        web._asking.acquire()
        web._ended._cond.acquire()
        pid = os.fork()
        if pid == 0:
            try:
                web.next()
            except RuntimeError:
                web.close()
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)

    def test_closed_it_gives_the_worker_id_back_and_makes_nothing(self):
        daemon = Daemon(lease(1000, 5000), None)
        web = daemon.generator()
        web.close()
        self.assertEqual(daemon.asked[1][:2], ("DELETE", f"/v1/pools/web/leases/3?token={daemon.asked[0][2]['token']}&generation=7"))
        with self.assertRaises(RuntimeError):
            web.next()

    def test_an_answer_that_is_not_understood_is_not_used_in_part(self):
        broken = lease(9000, 9500, worker=5)
        del broken["latest"]
        daemon = Daemon(lease(1000, 1001), refused("FAILED_PRECONDITION"), broken, lease(9100, 9600, worker=5))
        web = daemon.generator()
        web.next(), web.next()
        with self.assertRaises(KeyError):
            web.next()
        web._ask(None)  # as the thread does: it has nothing to extend
        self.assertEqual(len(daemon.asked), 3)
        self.assertEqual(parts(web.next())[:2], (9100, 5))
        self.assertTrue(daemon.asked[3][2]["repeated"])

    def test_the_answer_of_something_else_than_the_daemon_is_an_unknown_outcome(self):
        daemon = Daemon(lease(1000, 1001), Refused({"message": "Bad Gateway"}),
                        GRANTED, GRANTED)
        web = daemon.generator()
        web.next(), web.next()
        with self.assertRaises(Refused):
            web.next()
        web.next()
        self.assertEqual(daemon.asked[1][2]["new_nonce"], daemon.asked[2][2]["new_nonce"])

    def test_it_stops_if_the_pool_is_gone(self):
        daemon = Daemon(lease(1000, 5000), refused("NOT_FOUND"))
        web = daemon.generator()
        with self.assertRaises(Refused):
            web._ask(None)
        with self.assertRaises(Refused):
            web.next()

    def test_a_lease_may_begin_ahead_of_the_clock_and_no_id_is_further_ahead(self):
        daemon = Daemon(lease(15_000, 60_000, latest="21000"))
        web = daemon.generator(window_ms=15_000)
        self.assertEqual(parts(web.next())[0], 15_000)
        daemon.now = -10_000
        done = threading.Thread(target=web.next)
        done.start()
        done.join(0.05)
        self.assertTrue(done.is_alive())
        daemon.now = 1000
        done.join()
        web._ended.set()  # before the thread renews

    def test_a_clock_that_is_ahead_of_the_daemons_is_followed_no_further_than_a_lease_may_reach(self):
        daemon = Daemon(lease(1000, 1001, latest="21000"), GRANTED, now=900_000)
        web = daemon.generator(window_ms=15_000)
        time = parts(web.next())[0]
        self.assertTrue(5_999 <= time < 20_000, time)  # 21,000 less the window, and the time that passes
        self.assertTrue(20_999 <= daemon.asked[1][2]["new_to"] < 35_000)
        web._ended.set()

    def test_an_answer_to_another_request_is_not_used(self):
        with self.assertRaises(ValueError):
            Daemon(lease(1000, 5000, token="kept on the way")).generator()
        for other in ({"worker": 4}, {"token": "b"}, {"generation": "8"}, {"from": "999"}, {"nonce": "m"}, {"to": "1002"},
                      {"layout": {**LAYOUT, "epoch": "1"}}):
            daemon = Daemon(lease(1000, 1001), lambda body, other=other: {
                **lease(1000, body["new_to"]), "nonce": body["new_nonce"], "token": daemon.asked[0][2]["token"], **other})
            web = daemon.generator()
            web.next(), web.next()
            with self.assertRaises(ValueError):
                web.next()
            self.assertIsNotNone(web._pending)

    def test_a_layout_that_makes_one_id_of_two_is_refused(self):
        for wrong in ({"sequence_shift": 1}, {"time_shift": 10}, {"worker_shift": 0}, {"sequence_bits": 2_000_000_000},
                      {"worker_bits": -1}, {"unit": "0"}):
            with self.assertRaises(ValueError):
                Daemon(lease(1000, 5000, layout={**LAYOUT, **wrong})).generator()
        for worker, start, end in ((1024, 1, 2), (-1, 1, 2), (0, 2, 2), (0, -5, 2)):
            with self.assertRaises(ValueError):
                Daemon(lease(start, end, worker=worker)).generator()

    def test_who_waited_shares_a_failure(self):
        daemon = Daemon(lease(1000, 1001))
        web = daemon.generator()
        web.next(), web.next()
        failed = []

        def take():
            try:
                web.next()
            except OSError as error:
                failed.append(error)

        web._asking.acquire()  # somebody asks, in vain, for as long as they wait
        threads = [threading.Thread(target=take) for _ in range(5)]
        for thread in threads:
            thread.start()
        web._failure = (math.inf, OSError("away"))
        web._asking.release()
        for thread in threads:
            thread.join()
        self.assertEqual((len(failed), len(daemon.asked)), (5, 1))

    def test_a_thread_renews(self):
        renewed = threading.Event()

        def renew(body):
            renewed.set()
            return GRANTED if body else None

        daemon = Daemon(lease(1000, 2000), *[renew] * 1000)
        web = daemon.generator(window_ms=30)
        self.assertTrue(renewed.wait(60))
        web.close()

    def test_it_is_not_copied(self):
        web = Daemon(lease(1000, 5000)).generator()
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaises(TypeError):
                way(web)

    def test_nonces_differ_where_the_kernel_gives_the_same(self):
        real = os.urandom
        leased_snowflake.os.urandom = lambda size: bytes(size)
        try:
            self.assertEqual(len({leased_snowflake._nonce() for _ in range(100)}), 100)
        finally:
            leased_snowflake.os.urandom = real


if __name__ == "__main__":
    unittest.main()
